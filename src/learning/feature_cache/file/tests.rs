use super::*;
use crate::data::Split;

const ROW: usize = 3;

fn key() -> blake3::Hash {
    blake3::hash(b"key")
}

/// 40 samples of one class and 4 of another: blocks of 32, 8 and 4.
fn blocks() -> Blocks {
    let labels = (0..44).map(|i| u32::from(i >= 40)).collect();
    Blocks::of(&Split::from_buffer(vec![0; 44], [1, 1, 1], labels, 2).unwrap())
}

fn values(block: usize) -> Vec<f32> {
    let count = ROW * blocks().samples(block).len();
    (0..count).map(|i| (100 * block + i) as f32 + 0.5).collect()
}

fn open(folder: &Path) -> Opened {
    CacheFile::open(folder, "a.features", &key(), &blocks(), ROW).unwrap()
}

fn row(file: &CacheFile, block: usize, row: usize) -> Vec<f32> {
    let mut out = Vec::new();
    file.read(&blocks(), block, row, &mut out).unwrap();
    out
}

#[test]
fn a_row_that_was_changed_meanwhile_is_never_read() {
    let folder = tempfile::tempdir().unwrap();
    let file = open(folder.path()).file;
    file.put(&blocks(), 0, &values(0)).unwrap();
    file.put(&blocks(), 1, &values(1)).unwrap();
    let other = OpenOptions::new().write(true).open(folder.path().join("a.features")).unwrap();
    let at = file.range(&blocks(), 1).start as u64 + 4 * ROW as u64;
    (&other).seek(SeekFrom::Start(at)).unwrap();
    (&other).write_all(&7f32.to_le_bytes()).unwrap();
    assert_eq!(row(&file, 1, 0), values(1)[..3]);
    assert_eq!(row(&file, 1, 2), values(1)[6..9]);
    let read = |row| file.read(&blocks(), 1, row, &mut Vec::new());
    assert!(read(1).unwrap_err().to_string().contains("found others"));
    other.set_len(at).unwrap();
    assert!(read(1).unwrap_err().to_string().contains("found none"));
    assert_eq!(file.holds(&blocks(), 1), BlockState::Damaged);
    assert_eq!(
        (file.holds(&blocks(), 0), row(&file, 0, 31)),
        (BlockState::Whole, values(0)[93..].to_vec())
    );
}

#[cfg(unix)]
#[test]
fn foreign_files_are_neither_emptied_nor_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("precious"), "precious").unwrap();
    for name in ["lock", "a.features", "a.new"] {
        std::os::unix::fs::symlink(at("precious"), at(name)).unwrap();
    }
    open(folder.path()).file.put(&blocks(), 0, &values(0)).unwrap();
    assert_eq!(std::fs::read_to_string(at("precious")).unwrap(), "precious");
    std::fs::remove_file(at(LOCK)).unwrap();
    std::os::unix::fs::symlink(at("precious"), at(LOCK)).unwrap();
    assert!(CacheFile::open(folder.path(), "a.features", &key(), &blocks(), ROW).is_err());
}

#[test]
fn what_is_written_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let Opened { file, notice } = open(folder.path());
    assert_eq!(notice, None);
    for block in 0..3 {
        assert_eq!(file.holds(&blocks(), block), BlockState::Empty);
    }
    file.put(&blocks(), 1, &values(1)).unwrap();
    assert_eq!(row(&file, 1, 2), values(1)[6..9]);
    drop(file);
    let Opened { file, notice } = open(folder.path());
    assert_eq!(notice, None);
    assert_eq!(file.holds(&blocks(), 1), BlockState::Whole);
    assert_eq!(
        (file.holds(&blocks(), 0), file.holds(&blocks(), 2)),
        (BlockState::Empty, BlockState::Empty)
    );
    assert_eq!(row(&file, 1, 7), values(1)[21..24]);
}

#[test]
fn two_users_of_a_file_see_each_others_blocks() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other) = (open(folder.path()).file, open(folder.path()).file);
    std::thread::scope(|scope| {
        scope.spawn(|| (0..3).for_each(|block| one.put(&blocks(), block, &values(block)).unwrap()));
        scope.spawn(|| {
            (0..3).for_each(|block| other.put(&blocks(), block, &values(block)).unwrap())
        });
    });
    for block in 0..3 {
        assert_eq!(one.holds(&blocks(), block), BlockState::Whole);
        assert_eq!(row(&other, block, 0), values(block)[..3]);
    }
}

/// A process killed between the values and the checksum, or in the middle of the values.
#[test]
fn a_block_written_half_way_does_not_count() {
    let folder = tempfile::tempdir().unwrap();
    let file = open(folder.path()).file;
    file.put(&blocks(), 0, &values(0)).unwrap();
    let begin = file.range(&blocks(), 1).start as u64;
    drop(file);
    let write = |at: u64, bytes: &[u8]| {
        let mut file =
            OpenOptions::new().write(true).open(folder.path().join("a.features")).unwrap();
        file.seek(SeekFrom::Start(at)).unwrap();
        file.write_all(bytes).unwrap();
    };
    write(begin, &1f32.to_le_bytes());
    assert_eq!(open(folder.path()).file.holds(&blocks(), 1), BlockState::Empty);
    // The checksum is there and some values are not: pages reach a disk in any order.
    write((HEADER + SUM) as u64, blake3::hash(b"values").as_bytes());
    let Opened { file, notice } = open(folder.path());
    assert_eq!((file.holds(&blocks(), 1), notice), (BlockState::Damaged, None));
    assert_eq!(file.holds(&blocks(), 0), BlockState::Whole);
    file.put(&blocks(), 1, &values(1)).unwrap();
    assert_eq!(file.holds(&blocks(), 1), BlockState::Whole);
}

#[test]
fn a_file_cut_off_or_of_something_else_is_replaced_with_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.features");
    let damage: [(&dyn Fn(), &str); 2] = [
        (&|| std::fs::write(&path, b"fedcache").unwrap(), "it has 8 bytes and should have"),
        (
            &|| {
                let mut bytes = std::fs::read(&path).unwrap();
                bytes[20] ^= 1;
                std::fs::write(&path, bytes).unwrap();
            },
            "its header is damaged",
        ),
    ];
    for (damage, why) in damage {
        open(folder.path()).file.put(&blocks(), 2, &values(2)).unwrap();
        damage();
        let Opened { file, notice } = open(folder.path());
        assert!(notice.as_ref().is_some_and(|text| text.contains(why)), "{notice:?}");
        assert_eq!(file.holds(&blocks(), 2), BlockState::Empty);
    }
}

#[test]
fn system_errors_name_the_path() {
    let folder = tempfile::tempdir().unwrap();
    let taken = folder.path().join("taken");
    std::fs::write(&taken, "a file").unwrap();
    let error = CacheFile::open(&taken, "a.features", &key(), &blocks(), ROW).err().unwrap();
    let text = error.to_string();
    assert!(
        text.contains("taken: cannot make the folder") && text.contains("cache.folder"),
        "{text}"
    );
    let full = CacheError::io(&taken, "write a block")(io::ErrorKind::StorageFull.into());
    assert!(full.to_string().contains("Free space"), "{full}");
}

/// The device that is always full.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error_and_no_block() {
    let folder = tempfile::tempdir().unwrap();
    let file = open(folder.path()).file;
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    *file.file.lock() = full;
    let error = file.put(&blocks(), 0, &values(0)).unwrap_err();
    assert_eq!(error.source.kind(), io::ErrorKind::StorageFull);
    assert_eq!(file.holds(&blocks(), 0), BlockState::Empty);
}

/// A header, a checksum a block, up to a page; then every value in four bytes.
#[test]
fn a_file_has_its_length_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let file = open(folder.path()).file;
    let length = || std::fs::metadata(folder.path().join("a.features")).unwrap().len();
    assert_eq!(length(), 4096 + 4 * 3 * 44);
    file.put(&blocks(), 2, &values(2)).unwrap();
    assert_eq!(length(), 4096 + 4 * 3 * 44);
}
