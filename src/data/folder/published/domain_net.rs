//! DomainNet as it is downloaded: for every domain a folder, `DOMAIN_train.txt` and `DOMAIN_test.txt` with lines
//! `DOMAIN/CLASS/IMAGE NUMBER`. All domains whose folder is there are pooled.

use std::path::Path;

use crate::data::DataError;
use crate::data::folder::division::Division;
use crate::data::folder::entries::folders_in;
use crate::data::folder::list;

/// Returns the pooled division of all domains; `None` if no domain has such lists.
pub(super) fn read(root: &Path) -> Result<Option<Division>, DataError> {
    let mut domains: Vec<String> = folders_in(root)?.into_iter().map(|f| f.name).collect();
    domains.sort_unstable();
    let file = |domain: &String, part: &str| root.join(format!("{domain}_{part}.txt"));
    let (listed, others): (Vec<String>, Vec<String>) =
        domains.into_iter().partition(|domain| file(domain, "train").is_file());
    if listed.is_empty() {
        return Ok(None);
    }
    let parts = |part: &str| -> Result<Vec<list::ImageList>, DataError> {
        listed.iter().map(|domain| list::part(&file(domain, part), part)).collect()
    };
    let mut division = list::divide(root, &parts("train")?, &parts("test")?)?;
    division.notes.push(format!("domains pooled class by class: {}", listed.join(", ")));
    if !others.is_empty() {
        division.notes.push(format!("folders without a list, not used: {}", others.join(", ")));
    }
    Ok(Some(division))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::folder::FolderOptions;

    #[test]
    fn domains_with_lists_are_pooled() {
        let root = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = root.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for domain in ["sketch", "clipart"] {
            for image in ["cat/1.jpg", "cat/2.jpg", "axe/1.jpg", "axe/2.jpg"] {
                write(&format!("{domain}/{image}"), "");
            }
            let line =
                |class: &str, image, number| format!("{domain}/{class}/{image}.jpg {number}\n");
            write(&format!("{domain}_train.txt"), &(line("axe", 1, 0) + &line("cat", 2, 1)));
            write(&format!("{domain}_test.txt"), &(line("axe", 2, 0) + &line("cat", 1, 1)));
        }
        write("real/cat/1.jpg", "");
        let options = FolderOptions { clients: true, ..FolderOptions::default() };
        let made = Division::of(root.path(), &options).unwrap();
        assert_eq!(made.class_names, ["axe", "cat"]);
        let first = made.train[0].0.strip_prefix(root.path()).unwrap();
        assert_eq!(
            (first, made.train.len(), made.test.len()),
            (Path::new("clipart/axe/1.jpg"), 4, 4)
        );
        assert_eq!(made.train[3].1, 1);
        assert!(made.notes[1].contains("real"), "{:?}", made.notes);
        // A list of another domain that contradicts.
        write("sketch_test.txt", "sketch/axe/2.jpg 0\nsketch/cat/1.jpg 2\n");
        let error = Division::of(root.path(), &options).unwrap_err().to_string();
        assert!(error.contains("sketch_test.txt:2"), "{error}");
    }
}
