//! Compiles the kernels for NVIDIA GPUs if the feature `cuda` is enabled.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "cuda")]
    cuda();
}

#[cfg(feature = "cuda")]
fn cuda() {
    println!("cargo::rerun-if-changed=ops/gpu");
    let built = cudaforge::KernelBuilder::new()
        .source_files(["ops/gpu/kernels.cu"])
        .watch(["ops/gpu"])
        .arg("-std=c++17")
        .arg("-O3")
        .build_ptx();
    if let Err(error) = built {
        eprintln!("the kernels for GPUs were not compiled: {error}");
        std::process::exit(1);
    }
}
