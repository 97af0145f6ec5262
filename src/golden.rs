//! Golden test vectors: numbers computed by independent libraries.
//!
//! They are read from a folder of safetensors files with one `tolerances.json`. Only tests see this module.
//!
//! The folder is `FEDCAST_GOLDEN`, else `../shared/data/golden` next to the package. Every datum, tolerance and the
//! `phase_offset` of the formula fills is read from it, so another folder of the same layout is checked by changing
//! the path only. Without a folder every test run reports once per file that it was not checked, and
//! `FEDCAST_GOLDEN_REQUIRED=1` makes that a failure. A test of these vectors is named `golden_*` and begins
//!
//! ```ignore
//! let Some(golden) = Golden::open("vit_prefix") else { return };
//! golden.assert_close("loss", &[loss]);
//! ```
//! A small set of the same layout belongs to the package, `tests/vectors` (made by `tools/vectors.py`), so that a
//! fresh clone checks numbers, too: [`Golden::own`]. Files `released_*` among them hold outputs of released code
//! (`tools/vectors_released.py`); their tests are named `golden_released_*`. The tests of [`usage`] check that every
//! vector of both sets is read by a test, or waits for a method that is not implemented yet.

// Not every function is used by a test of every build.
#![allow(dead_code)]

mod usage;

use std::path::{Path, PathBuf};

use candle_core::{Device, Tensor, Var};
use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

/// File of golden vectors with its tolerances.
pub(crate) struct Golden {
    folder: PathBuf,
    file: String,
    bytes: Vec<u8>,
    tolerances: Value,
    phase_offset: f64,
}

/// Wave of a formula fill (see the README of the vectors).
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Wave {
    /// Used everywhere unless a key starts with `sine.`: full-rank, well-spread matrices.
    Chirp,
    /// Used by the smoke value only.
    Sine,
}

impl Golden {
    /// Opens `FILE.safetensors` of the golden folder; if it is absent, reports that it was not checked.
    ///
    /// The report bypasses the capture of test output. If `FEDCAST_GOLDEN` names a folder that does not exist, this
    /// panics, so that a typing error does not pass.
    pub fn open(file: &str) -> Option<Golden> {
        match folder() {
            Some(folder) => Some(Golden::read(&folder, file)),
            None => {
                usage::not_checked(&format!("golden vectors {file}.safetensors"));
                None
            }
        }
    }

    /// Opens `FILE.safetensors` of the package's own vectors, which always exist.
    pub fn own(file: &str) -> Golden {
        Golden::read(&own_folder(), file)
    }

    fn read(folder: &Path, file: &str) -> Golden {
        let read = |name: &str| {
            let path = folder.join(name);
            std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        let tolerances: Value =
            serde_json::from_slice(&read("tolerances.json")).expect("tolerances.json is JSON");
        let phase_offset = match folder.join("fills.safetensors").exists() {
            false => 0.0,
            true => {
                let fills = read("fills.safetensors");
                let fills = SafeTensors::deserialize(&fills).expect("fills.safetensors");
                usage::note(folder, "fills", "phase_offset");
                let view = fills.tensor("phase_offset").expect("phase_offset");
                f64::from_le_bytes(view.data().try_into().expect("phase_offset is one f64"))
            }
        };
        let bytes = read(&format!("{file}.safetensors"));
        Golden {
            folder: folder.to_owned(),
            file: file.to_owned(),
            bytes,
            tolerances: tolerances[file].clone(),
            phase_offset,
        }
    }

    /// Returns the shape of a stored tensor; a scalar has shape `[]`.
    pub fn shape(&self, name: &str) -> Vec<usize> {
        self.with(name, None, |shape, _| shape.to_vec())
    }

    /// Returns all names in the file, sorted.
    pub fn names(&self) -> Vec<String> {
        let file = SafeTensors::deserialize(&self.bytes).expect("safetensors");
        let mut names: Vec<String> = file.names().iter().map(|n| n.to_string()).collect();
        names.sort();
        names
    }

    /// Returns names and shapes of a state dict, from the file's `.keys.json`.
    pub fn keys(&self) -> Vec<(String, Vec<usize>)> {
        self.keys_of(&self.file)
    }

    /// Returns names and shapes from `FILE.keys.json`, if vectors of several networks share a file.
    pub fn keys_of(&self, file: &str) -> Vec<(String, Vec<usize>)> {
        let path = self.folder.join(format!("{file}.keys.json"));
        let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let keys: Value = serde_json::from_slice(&bytes).expect("keys.json is JSON");
        let entry = |key: &Value| {
            let shape = key["shape"].as_array().expect("a shape");
            let shape = shape.iter().map(|n| n.as_u64().expect("a size") as usize).collect();
            (key["name"].as_str().expect("a name").to_owned(), shape)
        };
        keys.as_array().expect("a list of keys").iter().map(entry).collect()
    }

    /// Returns a stored f32 tensor, row-major.
    pub fn f32(&self, name: &str) -> Vec<f32> {
        self.with(name, Some(Dtype::F32), |_, bytes| {
            bytes.chunks_exact(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect()
        })
    }

    /// Returns a stored f64 tensor, row-major.
    pub fn f64(&self, name: &str) -> Vec<f64> {
        self.with(name, Some(Dtype::F64), |_, bytes| {
            bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect()
        })
    }

    /// Returns a stored i64 tensor, row-major.
    pub fn i64(&self, name: &str) -> Vec<i64> {
        self.with(name, Some(Dtype::I64), |_, bytes| {
            bytes.chunks_exact(8).map(|b| i64::from_le_bytes(b.try_into().unwrap())).collect()
        })
    }

    /// Returns a stored f32 tensor on the CPU.
    pub fn tensor(&self, name: &str) -> Tensor {
        Tensor::from_vec(self.f32(name), self.shape(name), &Device::Cpu).expect("its shape")
    }

    /// Returns a stored f32 tensor on the CPU as a variable.
    pub fn variable(&self, name: &str) -> Var {
        Var::from_tensor(&self.tensor(name)).expect("a variable")
    }

    /// Returns stored labels or head rows.
    pub fn labels(&self, name: &str) -> Vec<u32> {
        self.i64(name).into_iter().map(|label| u32::try_from(label).expect("a label")).collect()
    }

    /// Returns a stored u8 tensor, row-major.
    pub fn u8(&self, name: &str) -> Vec<u8> {
        self.with(name, Some(Dtype::U8), |_, bytes| bytes.to_vec())
    }

    /// Returns `atol`, the largest allowed difference of an element (0 for integers).
    ///
    /// For f64 tensors it applies to a float64 implementation, see [`Golden::tolerance_f32`].
    pub fn tolerance(&self, name: &str) -> f64 {
        match self.dtype(name) {
            Dtype::F32 | Dtype::F64 => self.tolerances[name]["atol"]
                .as_f64()
                .unwrap_or_else(|| panic!("{}: no tolerance of {name}", self.file)),
            _ => 0.0,
        }
    }

    /// Returns the tolerance of an f64 tensor for a float32 implementation.
    ///
    /// It is `atol_f32` if the folder states it, else 1e-5 of the largest stored value.
    pub fn tolerance_f32(&self, name: &str) -> f64 {
        match self.dtype(name) {
            Dtype::F64 => self.tolerances[name]["atol_f32"].as_f64().unwrap_or_else(|| {
                1e-5 * self.f64(name).iter().fold(0.0, |m: f64, v| m.max(v.abs()))
            }),
            _ => self.tolerance(name),
        }
    }

    /// Asserts `|got - stored| <= tolerance` for every element, whatever the stored type.
    #[track_caller]
    pub fn assert_close<T: Copy + Into<f64>>(&self, name: &str, got: &[T]) {
        self.assert_within(name, got, self.tolerance(name));
    }

    /// Calls [`Golden::assert_close`] with [`Golden::tolerance_f32`].
    #[track_caller]
    pub fn assert_close_f32<T: Copy + Into<f64>>(&self, name: &str, got: &[T]) {
        self.assert_within(name, got, self.tolerance_f32(name));
    }

    /// Calls [`Golden::assert_close`] with the given tolerance.
    #[track_caller]
    pub fn assert_within<T: Copy + Into<f64>>(&self, name: &str, got: &[T], tolerance: f64) {
        let stored: Vec<f64> = match self.dtype(name) {
            Dtype::F32 => self.f32(name).into_iter().map(f64::from).collect(),
            Dtype::F64 => self.f64(name),
            Dtype::I64 => self.i64(name).into_iter().map(|v| v as f64).collect(),
            Dtype::U8 => self.u8(name).into_iter().map(f64::from).collect(),
            other => panic!("{}: {name} is {other:?}", self.file),
        };
        let got: Vec<f64> = got.iter().map(|&v| v.into()).collect();
        assert_close(&format!("{}: {name}", self.file), &got, &stored, tolerance);
    }

    /// Asserts that a tensor equals the stored one.
    #[track_caller]
    pub fn assert_tensor(&self, name: &str, got: &Tensor) {
        let got = got.flatten_all().and_then(|flat| flat.to_vec1::<f32>());
        self.assert_close(name, &got.expect("f32 values"));
    }

    /// Asserts that a loss is `NAME`, and its gradient in `of` `NAME.grad`.
    #[track_caller]
    pub fn assert_loss(&self, name: &str, loss: &Tensor, of: &Var) {
        self.assert_tensor(name, loss);
        let gradients = loss.backward().expect("a graph");
        let gradient = gradients.get(of).unwrap_or_else(|| panic!("{name} has no gradient"));
        self.assert_tensor(&format!("{name}.grad"), gradient);
    }

    /// Returns `fill(NAME, shape, scale)` of the README: `scale * w_i(NAME)`, rounded once to f32.
    pub fn fill(&self, name: &str, shape: &[usize], scale: f64) -> Vec<f32> {
        self.map_wave(Wave::Chirp, name, shape, |w| scale * w)
    }

    /// Returns the norm fill: `scale * (1 + 0.1 w_i)`.
    pub fn norm_fill(&self, name: &str, shape: &[usize], scale: f64) -> Vec<f32> {
        self.map_wave(Wave::Chirp, name, shape, |w| scale * (1.0 + 0.1 * w))
    }

    /// Returns the var fill: `1 + 0.1 |w_i|`.
    pub fn var_fill(&self, name: &str, shape: &[usize]) -> Vec<f32> {
        self.map_wave(Wave::Chirp, name, shape, |w| 1.0 + 0.1 * w.abs())
    }

    /// Returns any function of the wave `w_i(NAME)`, evaluated in f64 and rounded once.
    pub fn map_wave(
        &self,
        wave: Wave,
        name: &str,
        shape: &[usize],
        f: impl Fn(f64) -> f64,
    ) -> Vec<f32> {
        let phase = self.phase(wave, name);
        (0..shape.iter().product::<usize>() as u64)
            .map(|i| {
                let angle = match wave {
                    Wave::Chirp => 0.7 * (i.wrapping_mul(i) % 9973) as f64 + phase,
                    Wave::Sine => 0.01 * (i % 9973) as f64 + phase,
                };
                f(angle.sin()) as f32
            })
            .collect()
    }

    /// Returns the phase of a name, `phase_offset` included.
    pub fn phase(&self, wave: Wave, name: &str) -> f64 {
        let sum: u64 = match wave {
            Wave::Chirp => name.bytes().zip(1..).map(|(b, k)| k * u64::from(b)).sum(),
            Wave::Sine => name.bytes().map(u64::from).sum(),
        };
        (sum % 1000) as f64 / 100.0 + self.phase_offset
    }

    fn dtype(&self, name: &str) -> Dtype {
        usage::note(&self.folder, &self.file, name);
        let file = SafeTensors::deserialize(&self.bytes).expect("safetensors");
        file.tensor(name).unwrap_or_else(|e| panic!("{}: {name}: {e}", self.file)).dtype()
    }

    fn with<R>(&self, name: &str, dtype: Option<Dtype>, read: impl Fn(&[usize], &[u8]) -> R) -> R {
        usage::note(&self.folder, &self.file, name);
        let file = SafeTensors::deserialize(&self.bytes).expect("safetensors");
        let view = file.tensor(name).unwrap_or_else(|e| panic!("{}: {name}: {e}", self.file));
        if let Some(dtype) = dtype {
            assert_eq!(view.dtype(), dtype, "{}: type of {name}", self.file);
        }
        read(view.shape(), view.data())
    }
}

/// Asserts `|got - want| <= tolerance` elementwise; a failure reports the worst element.
#[track_caller]
pub(crate) fn assert_close(what: &str, got: &[f64], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len(), "{what}: number of elements");
    // A NaN is the worst of all: it compares as not within the tolerance.
    let worst = got
        .iter()
        .zip(want)
        .map(|(g, w)| (g - w).abs())
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(&b.1));
    if let Some((i, gap)) = worst {
        assert!(
            gap <= tolerance,
            "{what}: element {i} is {}, should be {} (off by {gap:.3e}, allowed {tolerance:.1e})",
            got[i],
            want[i],
        );
    }
}

/// Returns a file or folder next to the golden one (`weights/...`, `cifar100-mini/...`), if it exists.
pub(crate) fn shared_data(path: &str) -> Option<PathBuf> {
    let found = folder().map(|f| f.join("..").join(path)).filter(|p| p.exists());
    if found.is_none() {
        usage::not_checked(&format!("{path} next to the golden vectors"));
    }
    found
}

/// Returns the folder of the package's own vectors.
fn own_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors")
}

fn folder() -> Option<PathBuf> {
    if std::env::var_os(usage::ABSENT).is_some() {
        return None;
    }
    match std::env::var_os("FEDCAST_GOLDEN") {
        Some(named) => {
            let named = PathBuf::from(named);
            assert!(named.is_dir(), "FEDCAST_GOLDEN = {} is no folder", named.display());
            Some(named)
        }
        None => {
            let usual = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/golden");
            usual.is_dir().then_some(usual)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_fills() {
        let Some(golden) = Golden::open("fills") else { return };
        for (wave, prefix) in [(Wave::Chirp, "chirp"), (Wave::Sine, "sine")] {
            let far_name = "layer4.0.conv2.weight";
            let far = golden.map_wave(wave, far_name, &[512, 512, 3, 3], |w| w);
            let head = golden.map_wave(wave, "head.weight", &[10, 48], |w| 0.2 * w);
            let norm = golden.map_wave(wave, "norm.weight", &[48], |w| 1.0 + 0.1 * w);
            let var = golden.map_wave(wave, "bn1.running_var", &[64], |w| 1.0 + 0.1 * w.abs());
            golden.assert_close(&format!("{prefix}.head"), &head);
            golden.assert_close(&format!("{prefix}.norm"), &norm);
            golden.assert_close(&format!("{prefix}.var"), &var);
            golden.assert_close(&format!("{prefix}.far"), &far[far.len() - 16..]);
            let wrap = golden.shape(&format!("{prefix}.wrap"))[0];
            golden.assert_close(&format!("{prefix}.wrap"), &far[9965..9965 + wrap]);
        }
        let names = ["head.weight", "blocks.0.norm2.weight", "blocks.1.norm1.weight"];
        let phases: Vec<f64> = [Wave::Chirp, Wave::Sine]
            .iter()
            .flat_map(|&wave| names.map(|name| golden.phase(wave, name)))
            .collect();
        golden.assert_close("phase", &phases);
    }

    #[test]
    #[should_panic(expected = "element 1")]
    fn a_nan_is_never_close() {
        assert_close("x", &[1.0, f64::NAN, 9.0], &[1.0, 2.0, 3.0], 100.0);
    }
}
