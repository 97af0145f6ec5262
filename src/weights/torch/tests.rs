//! Archives as `torch.save` writes them, made by hand.

use std::io::Write;
use std::path::Path;

use zip::write::SimpleFileOptions;

use crate::weights::WeightsFile;

/// A dictionary in a pickle: names and what the callables below push.
fn dictionary(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = b"}(".to_vec();
    for (name, value) in pairs {
        bytes.extend(text(name));
        bytes.extend(value);
    }
    bytes.push(b'u');
    bytes
}

fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn tuple(numbers: &[u8]) -> Vec<u8> {
    let numbers: Vec<u8> = numbers.iter().flat_map(|number| [b'K', *number]).collect();
    [&b"("[..], &numbers, b"t"].concat()
}

/// A view of a storage of this number of floats.
fn tensor(storage: &str, offset: u8, shape: &[u8], strides: &[u8]) -> Vec<u8> {
    [
        &b"ctorch._utils\n_rebuild_tensor_v2\n(("[..],
        &text("storage"),
        b"ctorch\nFloatStorage\n",
        &text(storage),
        &text("cpu"),
        b"K\x09tQK",
        &[offset],
        &tuple(shape),
        &tuple(strides),
        b"\x89ccollections\nOrderedDict\n)RtR",
    ]
    .concat()
}

fn save(path: &Path, pickle: &[u8], storages: &[(&str, &[f32])]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(path).unwrap());
    let plain = SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    archive.start_file("weights/data.pkl", plain).unwrap();
    archive.write_all(&[b"\x80\x02", pickle, b"."].concat()).unwrap();
    for (name, values) in storages {
        archive.start_file(format!("weights/data/{name}"), plain).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        archive.write_all(&bytes).unwrap();
    }
    archive.finish().unwrap();
}

const SIX: [f32; 6] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0];

#[test]
fn views_of_storages_are_read_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pth");
    let state = dictionary(&[
        ("whole", tensor("0", 0, &[2, 3], &[3, 1])),
        ("turned", tensor("0", 0, &[3, 2], &[1, 3])),
        ("tail", tensor("0", 4, &[2], &[1])),
        ("epoch", b"K\x07".to_vec()),
    ]);
    save(&path, &state, &[("0", &SIX)]);
    let mut file = WeightsFile::open(&path).unwrap();
    assert_eq!(file.listing().keys().collect::<Vec<_>>(), ["tail", "turned", "whole"]);
    assert_eq!((file.format().word(), file.part()), ("PyTorch (zip)", None));
    assert_eq!(&*file.read("whole").unwrap().values, SIX);
    assert_eq!(&*file.read("turned").unwrap().values, [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]);
    assert_eq!(&*file.read("tail").unwrap().values, [4.0, 5.0]);
}

#[test]
fn weights_are_found_below_the_keys_of_training_programs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pth");
    let one = |name: &str, storage: &str| dictionary(&[(name, tensor(storage, 0, &[1], &[1]))]);
    let both = dictionary(&[("student", one("a", "0")), ("teacher", one("a", "1"))]);
    save(&path, &both, &[("0", &[1.0]), ("1", &[2.0])]);
    let mut file = WeightsFile::open(&path).unwrap();
    assert_eq!(file.part(), Some("teacher"));
    assert_eq!(&*file.read("a").unwrap().values, [2.0]);

    let deep = dictionary(&[("model", dictionary(&[("state_dict", one("a", "0"))]))]);
    save(&path, &deep, &[("0", &[3.0])]);
    let mut file = WeightsFile::open(&path).unwrap();
    assert_eq!(file.part(), Some("model.state_dict"));
    assert_eq!(&*file.read("a").unwrap().values, [3.0]);
}

/// Returns the set that is read from a file of several sets, its value, and the other sets.
fn sets(
    pairs: &[(&str, Vec<u8>)],
    part: Option<&str>,
) -> Result<(String, f32, Vec<String>), String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pth");
    let values: Vec<(String, Vec<f32>)> =
        (0..4).map(|storage| (storage.to_string(), vec![storage as f32])).collect();
    let values: Vec<(&str, &[f32])> = values.iter().map(|(name, v)| (&**name, &**v)).collect();
    save(&path, &dictionary(pairs), &values);
    let listed = WeightsFile::index(&path, "w.pth", part).map_err(|error| error.to_string())?;
    let mut file = WeightsFile::called(&path, "w.pth", part).map_err(|error| error.to_string())?;
    assert_eq!(&listed, file.listing());
    let value = file.read("a").unwrap().values[0];
    Ok((file.part().unwrap_or_default().to_owned(), value, file.others()))
}

#[test]
fn averaged_weights_come_first_in_every_spelling_and_others_are_named() {
    let one = |storage: &str| dictionary(&[("a", tensor(storage, 0, &[1], &[1]))]);
    for (raw, averaged) in [
        ("state_dict", "state_dict_ema"),
        ("model", "model_ema"),
        ("model_state_dict", "model_ema_state_dict"),
        ("state_dict", "ema_state_dict"),
        ("model", "ema"),
    ] {
        for pairs in
            [[(raw, one("1")), (averaged, one("2"))], [(averaged, one("2")), (raw, one("1"))]]
        {
            let read = |part| sets(&pairs, part).unwrap();
            let first = (averaged.to_owned(), 2.0, vec![raw.to_owned()]);
            let other = (raw.to_owned(), 1.0, vec![averaged.to_owned()]);
            assert_eq!(
                (read(None), read(Some(averaged)), read(Some(raw))),
                (first.clone(), first, other)
            );
        }
    }
}

#[test]
fn a_part_may_lie_within_others_or_stand_before_names() {
    let one = |storage: &str| dictionary(&[("a", tensor(storage, 0, &[1], &[1]))]);
    let deep = [
        ("model", dictionary(&[("encoder", one("1")), ("state_dict", one("2"))])),
        ("optimizer", dictionary(&[("state", dictionary(&[]))])),
        ("mine", one("3")),
    ];
    let others = vec!["mine".to_owned(), "model.encoder".to_owned()];
    assert_eq!(sets(&deep, None), Ok(("model.state_dict".to_owned(), 2.0, others)));
    assert_eq!(sets(&deep, Some("mine")).unwrap().1, 3.0);
    assert_eq!(sets(&deep, Some("model.encoder")).unwrap().1, 1.0);
    let error = sets(&deep, Some("ema")).unwrap_err();
    assert!(error.contains("no part `ema`") && error.contains("`model.encoder`"), "{error}");

    let flat = [("model.a", tensor("1", 0, &[1], &[1])), ("ema.a", tensor("2", 0, &[1], &[1]))];
    assert_eq!(sets(&flat, Some("ema")).unwrap().1, 2.0);
    assert_eq!(sets(&flat, Some("model")).unwrap().1, 1.0);
}

#[test]
fn a_key_without_tensors_is_no_set_of_weights() {
    let one = |storage: &str| dictionary(&[("a", tensor(storage, 0, &[1], &[1]))]);
    let pairs = [("ema", dictionary(&[("updates", b"K\x07".to_vec())])), ("model", one("1"))];
    assert_eq!(sets(&pairs, None), Ok(("model".to_owned(), 1.0, Vec::new())));
}

#[test]
fn parameters_and_tensors_of_classes_are_tensors() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pth");
    let parameter = [
        &b"ctorch._utils\n_rebuild_parameter\n("[..],
        &tensor("0", 2, &[2], &[1]),
        b"\x88ccollections\nOrderedDict\n)RtR",
    ]
    .concat();
    // The arguments of the inner tensor without its call: what stands between the class and the end.
    let inner = tensor("0", 0, &[2], &[1]);
    let head = b"ctorch._utils\n_rebuild_tensor_v2\n";
    let arguments = &inner[head.len()..inner.len() - 1];
    let of_class = [
        &b"ctorch._tensor\n_rebuild_from_type_v2\n("[..],
        head,
        b"ctorch.nn\nParameter\n",
        arguments,
        b"}tR",
    ]
    .concat();
    save(&path, &dictionary(&[("p", parameter), ("q", of_class)]), &[("0", &SIX)]);
    let mut file = WeightsFile::open(&path).unwrap();
    assert_eq!(&*file.read("p").unwrap().values, [2.0, 3.0]);
    assert_eq!(&*file.read("q").unwrap().values, [0.0, 1.0]);
}

#[test]
fn tensors_of_other_kinds_do_not_vanish() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pth");
    let sparse = b"ctorch._utils\n_rebuild_sparse_tensor\n)R".to_vec();
    let array = b"cnumpy.core.multiarray\n_reconstruct\n)R)b".to_vec();
    let dense = ("a", tensor("0", 0, &[1], &[1]));
    let refusal = |pairs: &[(&str, Vec<u8>)]| {
        save(&path, &dictionary(pairs), &[("0", &SIX)]);
        WeightsFile::open(&path).err().map(|error| error.to_string())
    };
    assert_eq!(refusal(&[dense.clone(), ("epoch", b"K\x07".to_vec())]), None);
    let error = refusal(&[dense, ("s", sparse), ("n", array)]).unwrap();
    assert!(error.contains("`s (torch._utils._rebuild_sparse_tensor)`"), "{error}");
    assert!(error.contains("`n (numpy.core.multiarray._reconstruct)`"), "{error}");
    assert!(error.contains("to_dense"), "{error}");
}

#[test]
fn missing_and_short_data_are_named_by_tensor() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("w.pth");
    let refusal = |pickle: &[u8]| {
        save(&path, pickle, &[("0", &SIX)]);
        match WeightsFile::open(&path) {
            Ok(mut file) => file.read("a").unwrap_err().to_string(),
            Err(error) => error.to_string(),
        }
    };
    let error = refusal(&dictionary(&[("a", tensor("0", 1, &[6], &[1]))]));
    assert!(error.contains("`a`") && error.contains("4 bytes less"), "{error}");
    let error = refusal(&dictionary(&[("a", tensor("1", 0, &[6], &[1]))]));
    assert!(error.contains("`a`"), "{error}");
    let error = refusal(&dictionary(&[("a", tensor("0", 0, &[200, 200], &[0, 0]))]));
    assert!(error.contains("impossible extents"), "{error}");
    let error = refusal(b"cposix\nsystem\n(X\x02\0\0\0lstR");
    assert!(error.contains("no named tensors") && error.contains("python -c"), "{error}");
    let error = refusal(b"cos\nsystem");
    assert!(error.contains("cannot be read"), "{error}");
}
