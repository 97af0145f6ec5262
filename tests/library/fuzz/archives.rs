//! Archives of a data set, packed or not.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;

use super::cases;
use super::damage::damaged;
use fedcast::data::{Cifar, cifar};

const NAMES: &str = "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n";

/// CIFAR-10 of one image per class and file, as a tar stream.
fn archive(folder: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let batches = (1..=5).map(|i| format!("data_batch_{i}.bin")).chain(["test_batch.bin".into()]);
    let image = |class: u8| std::iter::once(class).chain([7; 3072]);
    let files = batches.map(|name| (name, (0..10).flat_map(image).collect::<Vec<u8>>()));
    for (name, bytes) in files.chain([("batches.meta.txt".to_owned(), NAMES.into())]) {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, format!("{folder}/{name}"), &*bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

fn read(bytes: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cifar.tar.gz");
    std::fs::write(&path, bytes).unwrap();
    let read = cifar::open(Cifar::Ten, &path).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is unpacked");
    read
}

#[test]
fn the_corpus_is_valid() {
    read(&packed(&archive("cifar-10-batches-bin"))).unwrap();
    read(&packed(&archive(&"deep".repeat(60)))).unwrap();
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn any_archive_is_read_or_refused(
        inner in damaged(vec![archive("a"), archive(&"deep".repeat(60))]),
        outer in damaged(vec![packed(&archive("a"))]),
    ) {
        for bytes in [packed(&inner), outer] {
            if let Err(error) = read(&bytes) {
                prop_assert!(error.len() < 5_000, "{} bytes", error.len());
            }
        }
    }
}
