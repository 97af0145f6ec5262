//! Files of weights: safetensors, PyTorch's and NumPy's archives.

use std::io::{Cursor, Write};

use proptest::prelude::*;
use zip::write::SimpleFileOptions;

use super::cases;
use super::damage::damaged;
use fedcast::model::vit::Checkpoint;
use fedcast::model::{Parameter, ParameterSet, VitConfig, to_safetensors};
use fedcast::weights::{WeightsError, WeightsFile};

const HEADS: Option<usize> = Some(2);

/// A transformer of one block, so that most damage strikes the index of the file.
fn corpus() -> Vec<Vec<u8>> {
    let config = VitConfig {
        image: 4,
        patch: 2,
        channels: 1,
        dim: 4,
        depth: 1,
        heads: 2,
        mlp: 4,
        ..VitConfig::default()
    };
    let mut all = ParameterSet::new();
    for (name, shape) in config.parameter_shapes() {
        let values = vec![0.25; shape.iter().product()];
        all.insert(name, Parameter { shape, values: values.into() });
    }
    vec![to_safetensors(&all).unwrap()]
}

/// Returns what torch.save writes of `{"w": tensor of 2 x 3, "epoch": 7}` within its archive.
fn pickle() -> Vec<u8> {
    let text =
        |text: &str| [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let mut all = b"\x80\x02}(".to_vec();
    all.extend(text("w"));
    all.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
    all.extend(text("storage"));
    all.extend(b"ctorch\nFloatStorage\n");
    all.extend([text("0"), text("cpu")].concat());
    all.extend(b"K\x06tQK\x00(K\x02K\x03t(K\x03K\x01t\x89ccollections\nOrderedDict\n)RtR");
    all.extend(text("epoch"));
    all.extend(b"K\x07u.");
    all
}

/// An archive of these members, nothing of it compressed.
fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(Cursor::new(Vec::new()));
    let plain = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    for (name, bytes) in members {
        archive.start_file(*name, plain).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn saved(pickle: &[u8], storage: &[u8]) -> Vec<u8> {
    archive(&[("w/data.pkl", pickle), ("w/data/0", storage)])
}

/// Returns a vector as NumPy writes it, as a member of an archive.
fn array() -> Vec<u8> {
    let header = "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }\n";
    let length = (header.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", length.as_slice(), header.as_bytes(), &[0; 12]].concat()
}

/// Reads every tensor of a file.
fn walk(bytes: &[u8]) -> Result<usize, WeightsError> {
    let mut written = tempfile::NamedTempFile::new().unwrap();
    written.write_all(bytes).unwrap();
    let mut file = WeightsFile::open(written.path())?;
    let names: Vec<String> = file.listing().keys().cloned().collect();
    for name in &names {
        file.read(name)?;
    }
    Ok(names.len())
}

#[test]
fn the_corpus_is_valid() {
    Checkpoint::from_bytes("a", &corpus()[0], HEADS).unwrap();
    assert_eq!(walk(&saved(&pickle(), &[0; 24])).unwrap(), 1);
    assert_eq!(walk(&archive(&[("w.npy", &array())])).unwrap(), 1);
}

fn bounded(bytes: &[u8]) -> Result<(), TestCaseError> {
    let length = walk(bytes).err().map_or(0, |error| error.to_string().len());
    prop_assert!(length < 5_000, "{} bytes", length);
    Ok(())
}

proptest! {
    #![proptest_config(cases(2_000))]

    #[test]
    fn any_weights_are_read_or_refused(bytes in damaged(corpus())) {
        if let Err(error) = Checkpoint::from_bytes("a", &bytes, HEADS) {
            let message = error.to_string();
            prop_assert!(message.len() < 5_000, "{} bytes", message.len());
        }
    }

    /// The pickle within a sound archive, and the archive itself.
    #[test]
    fn any_archive_is_read_or_refused(
        pickle in damaged(vec![pickle()]),
        array in damaged(vec![array()]),
        whole in damaged(vec![saved(&pickle(), &[0; 24]), archive(&[("w.npy", &array())])]),
    ) {
        bounded(&saved(&pickle, &[0; 24]))?;
        bounded(&archive(&[("w.npy", &array)]))?;
        bounded(&whole)?;
    }
}
