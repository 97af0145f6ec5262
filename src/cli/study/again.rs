//! Command line that continues a study with the same options.

use super::StudyArgs;
use crate::files::shell_word;

/// Returns the command for a shell; with `--retry-failed` if runs failed.
pub(super) fn command(args: &StudyArgs, failed: bool) -> String {
    let mut words = vec!["fedcast".to_owned(), "study".to_owned()];
    words.push(args.file.display().to_string());
    let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
    if let Some(out) = &args.out {
        option("-o", out.display().to_string());
    }
    args.set.iter().for_each(|set| option("--set", set.clone()));
    args.only.iter().for_each(|only| option("--only", only.clone()));
    if let Some(shard) = &args.shard {
        option("--shard", shard.clone());
    }
    if let Some(jobs) = args.jobs {
        option("--jobs", jobs.to_string());
    }
    if failed {
        words.push("--retry-failed".to_owned());
    }
    words.iter().map(shell_word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct StudyCommandLine {
        #[command(flatten)]
        args: StudyArgs,
    }

    #[test]
    fn what_was_chosen_is_chosen_again() {
        let words = [
            "study",
            "my a.study.toml",
            "-o",
            "out",
            "--shard",
            "1/2",
            "--only",
            "method=hgp",
            "--only",
            "label=it's",
            "--set",
            "tasks.sizes=[5, 5]",
            "--jobs",
            "3",
            "-q",
        ];
        let args = StudyCommandLine::parse_from(words).args;
        let expected = "fedcast study 'my a.study.toml' -o out --set 'tasks.sizes=[5, 5]' \
                        --only method=hgp --only 'label=it'\\''s' --shard 1/2 --jobs 3";
        assert_eq!(command(&args, false), expected);
        assert_eq!(command(&args, true), format!("{expected} --retry-failed"));
        let args = StudyCommandLine::parse_from(["study", "a.study.toml"]).args;
        assert_eq!(command(&args, false), "fedcast study a.study.toml");
    }
}
