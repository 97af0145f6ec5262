use super::*;

/// Empty files stand for images: lists are about names.
fn folder(images: &[&str]) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    for image in images {
        let path = root.path().join(image);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }
    root
}

const IMAGES: [&str; 5] = ["a/1.jpg", "a/2.jpg", "b/1.jpg", "b/2.jpg", "b/3.jpg"];

/// Reads lists with these endings and texts; one for both parts where there is no second.
fn listed_by(
    root: &Path,
    ending: &str,
    train: &str,
    test: Option<&str>,
) -> Result<Division, DataError> {
    let write = |name: &str, text: &str| {
        let path = root.join(format!("{name}.{ending}"));
        std::fs::write(&path, text).unwrap();
        path
    };
    let train = write("train", train);
    let test = test.map_or(train.clone(), |text| write("test", text));
    read(root, &train, &test)
}

fn names(root: &Path, part: &[(PathBuf, u32)]) -> Vec<(String, u32)> {
    let name = |path: &Path| path.strip_prefix(root).unwrap().display().to_string();
    part.iter().map(|(path, class)| (name(path), *class)).collect()
}

fn expected(part: &[(&str, u32)]) -> Vec<(String, u32)> {
    part.iter().map(|(path, class)| ((*path).to_owned(), *class)).collect()
}

const TRAIN: &str = "data:\n- data/set/b/1.jpg\n- data/set/a/2.jpg\n- 'data/set/b/3.jpg'\ntargets:\n- 0\n- 1\n- 0\n";
const TEST: &str = "data:\n- data/set/a/1.jpg\n- data/set/b/2.jpg\ntargets:\n- 1\n- 0\n";

#[test]
fn yaml_lists_keep_their_order_and_their_classes() {
    let root = folder(&IMAGES);
    let listed = listed_by(root.path(), "yaml", TRAIN, Some(TEST)).unwrap();
    assert_eq!(listed.class_names, ["b", "a"], "numbered as the list does, not by name");
    let train = [("b/1.jpg", 0), ("a/2.jpg", 1), ("b/3.jpg", 0)];
    assert_eq!(names(root.path(), &listed.train), expected(&train));
    assert_eq!(names(root.path(), &listed.test), expected(&[("a/1.jpg", 1), ("b/2.jpg", 0)]));
}

#[test]
fn text_lists_number_their_classes_or_leave_it_to_the_folders() {
    let root = folder(&IMAGES);
    let listed = listed_by(
        root.path(),
        "txt",
        "# images\nset/b/1.jpg 0\n\nset/a/2.jpg\t1\n",
        Some("set/a/1.jpg,1\nset/b/2.jpg 0\n"),
    );
    let listed = listed.unwrap();
    assert_eq!(listed.class_names, ["b", "a"]);
    assert_eq!(names(root.path(), &listed.train), expected(&[("b/1.jpg", 0), ("a/2.jpg", 1)]));
    let listed = listed_by(root.path(), "txt", "b/1.jpg\na/2.jpg\n", Some("a/1.jpg\nb/2.jpg\n"));
    let listed = listed.unwrap();
    assert_eq!(listed.class_names, ["a", "b"]);
    assert_eq!(names(root.path(), &listed.test), expected(&[("a/1.jpg", 0), ("b/2.jpg", 1)]));
}

#[test]
fn lists_may_count_from_one_and_have_marks_and_quotes() {
    let root = folder(&IMAGES);
    let marked = "\u{feff}set/b/1.jpg 1\r\nset/a/2.jpg 2\r\n";
    let quoted = "\"set/a/1.jpg\" \"2\"\r'set/b/2.jpg',1\r";
    let listed = listed_by(root.path(), "txt", marked, Some(quoted)).unwrap();
    assert_eq!(listed.class_names, ["b", "a"]);
    assert_eq!(names(root.path(), &listed.train), expected(&[("b/1.jpg", 0), ("a/2.jpg", 1)]));
    assert_eq!(names(root.path(), &listed.test), expected(&[("a/1.jpg", 1), ("b/2.jpg", 0)]));
    assert_eq!(listed.notes, ["the list counts its classes from 1: class 0 here is `b`"]);
    let yaml = format!("\u{feff}{}", TRAIN.replace('\n', "\r\n"));
    let listed = listed_by(root.path(), "yaml", &yaml, Some(TEST)).unwrap();
    assert_eq!((listed.class_names.len(), listed.notes.len()), (2, 0));
}

#[test]
fn lists_name_images_in_either_unicode_form() {
    let root = folder(&["Cafe\u{301}/1.jpg", "Cafe\u{301}/2.jpg"]);
    let listed =
        listed_by(root.path(), "txt", "Café/1.jpg\n", Some("Cafe\u{301}/2.jpg\n")).unwrap();
    assert_eq!(listed.class_names, ["Café"]);
    assert!(listed.train[0].0.is_file() && listed.test[0].0.is_file());
}

#[test]
fn json_lists_hold_both_parts_and_names_that_are_no_folders() {
    let root = folder(&["x/1.jpg", "x/2.jpg", "x/3.jpg", "x/4.jpg", "x/5.jpg"]);
    let text = r#"{
    "train": [["x/1.jpg", 1, "river"], ["x/2.jpg", 0, "forest"]],
    "val": [["x/5.jpg", 1, "river"]],
    "test": [["x/3.jpg", 0, "forest"], ["x/4.jpg", 1, "river"]]
}"#;
    let listed = listed_by(root.path(), "json", text, None).unwrap();
    assert_eq!(listed.class_names, ["forest", "river"]);
    assert_eq!(names(root.path(), &listed.train), expected(&[("x/1.jpg", 1), ("x/2.jpg", 0)]));
    assert_eq!(names(root.path(), &listed.test), expected(&[("x/3.jpg", 0), ("x/4.jpg", 1)]));
}

#[test]
fn what_is_wrong_with_a_list_is_shown_with_its_line() {
    let root = folder(&IMAGES);
    let json = |train: &str, test: &str| {
        format!("{{\n\"train\": [\n{train}\n],\n\"test\": [\n{test}\n]}}")
    };
    let rows = [
        // A missing image; the first decides what is dropped of the paths.
        ("yaml", TRAIN.replace("a/2", "a/9"), TEST.to_owned(), "the image that", "train.yaml:3"),
        ("yaml", TRAIN.replace("b/1", "b/9"), TEST.to_owned(), "the image that", "train.yaml:2"),
        ("yaml", TRAIN.to_owned(), TEST.replace("b/2", "b/9"), "the image that", "test.yaml:3"),
        // A class in the tested part only.
        (
            "yaml",
            TRAIN.to_owned(),
            TEST.replace("a/1.jpg\n", "b/1.jpg\n"),
            "class 1 for `b`",
            "test.yaml:3",
        ),
        (
            "txt",
            "a/1.jpg".to_owned(),
            "a/2.jpg\nb/2.jpg".to_owned(),
            "class `b`, which is not there",
            "test.txt:2",
        ),
        // An image twice.
        (
            "txt",
            "a/1.jpg\nb/1.jpg".to_owned(),
            "b/2.jpg\na/1.jpg".to_owned(),
            "a/1.jpg again",
            "test.txt:2",
        ),
        // Classes that contradict each other.
        (
            "txt",
            "a/1.jpg 0\na/2.jpg 1".to_owned(),
            "a/2.jpg 0".to_owned(),
            "train.txt:1, found",
            "train.txt:2",
        ),
        (
            "txt",
            "a/1.jpg 0\nb/2.jpg 0".to_owned(),
            "a/2.jpg 0".to_owned(),
            "class 0 for `a` only",
            "train.txt:2",
        ),
        (
            "txt",
            "a/1.jpg 0\nb/2.jpg 1".to_owned(),
            "a/2.jpg 1\nb/1.jpg 0".to_owned(),
            "class 0 for `a`",
            "test.txt:1",
        ),
        (
            "txt",
            "a/1.jpg 0\nb/2.jpg 2".to_owned(),
            "a/2.jpg 0\nb/1.jpg 2".to_owned(),
            "without a gap",
            "train.txt",
        ),
        (
            "txt",
            "a/1.jpg 1\nb/2.jpg 3".to_owned(),
            "a/2.jpg 1\nb/1.jpg 3".to_owned(),
            "2 classes, none with number 2",
            "train.txt",
        ),
        (
            "txt",
            "a/1.jpg 0\nb/2.jpg 1".to_owned(),
            "a/2.jpg -1\nb/1.jpg -1".to_owned(),
            "These labels are unknown",
            "test.txt:1",
        ),
        (
            "yaml",
            TRAIN.to_owned(),
            TEST.replace("- 0\n", "- -1\n"),
            "These labels are unknown",
            "test.yaml:6",
        ),
        (
            "json",
            json("[\"a/1.jpg\", 0, \"a\"]", "[\"a/2.jpg\", -1, \"a\"]"),
            String::new(),
            "These labels are unknown",
            "train.json:6",
        ),
        // Broken files.
        (
            "yaml",
            TRAIN.replace("- 1\n", "- one\n"),
            TEST.to_owned(),
            "the number of a class",
            "train.yaml:7",
        ),
        (
            "yaml",
            TRAIN.replace("- 1\n", ""),
            TEST.to_owned(),
            "a class in `targets` for every image",
            "train.yaml:4",
        ),
        (
            "yaml",
            format!("set: 1\n{TRAIN}"),
            TEST.to_owned(),
            "`data:` or `targets:`",
            "train.yaml:1",
        ),
        ("csv", String::new(), String::new(), "a list of unknown form", "train.csv"),
        (
            "json",
            json("[\"a/1.jpg\", 0, \"a\"],\n[\"b/1.jpg\", \"b\"]", ""),
            String::new(),
            "[\"path\", class",
            "train.json:4",
        ),
        (
            "json",
            json("[\"a/1.jpg\", 0, \"a\"]", "[\"a/2.jpg\", 0, \"a\"],\n[\"a/7.jpg\", 0, \"a\"]"),
            String::new(),
            "the image that",
            "train.json:7",
        ),
        ("json", "{\n\"train\": }".to_owned(), String::new(), "expected JSON", "train.json:2"),
        ("json", "{\"train\": []}".to_owned(), String::new(), "a list `test`", "train.json"),
    ];
    for (ending, train, test, what, place) in rows {
        let second = (ending != "json").then_some(&*test);
        let error = listed_by(root.path(), ending, &train, second).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(place), "{train}\n{test}\ngives {error}");
    }
}
