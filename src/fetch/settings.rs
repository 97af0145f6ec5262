//! Settings of fetching: folders, servers, and whether downloads are allowed.

use std::env;
use std::path::{Path, PathBuf};

/// Folders, servers and limits of fetching.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Folder of data sets, with one folder each.
    pub data: PathBuf,
    /// Cache of the Hugging Face hub, shared with its other clients.
    pub hub: PathBuf,
    /// Address of the hub or of a mirror.
    pub endpoint: String,
    /// Token for private and gated repositories.
    pub token: Option<String>,
    /// Server that has the files of the catalog as `NAME/FILE`; used instead of their own servers.
    pub mirror: Option<String>,
    /// Reason why downloads are disabled, if they are.
    pub offline: Option<&'static str>,
    /// True if progress is shown on a terminal.
    pub progress: bool,
}

impl Settings {
    /// Reads the settings from the environment.
    ///
    /// The variables are `FEDCAST_DATA`, `FEDCAST_CACHE`, `FEDCAST_MIRROR`, `FEDCAST_OFFLINE`, and for the hub
    /// `HF_HUB_CACHE`, `HF_HOME`, `HF_ENDPOINT`, `HF_TOKEN`, `HF_TOKEN_PATH` and `HF_HUB_OFFLINE` as its own clients
    /// read them.
    pub fn from_env() -> Settings {
        let path = |key: &str| value(key).map(PathBuf::from);
        let caches = || dirs::cache_dir().unwrap_or_else(|| PathBuf::from(".cache"));
        let data = path("FEDCAST_DATA").unwrap_or_else(|| {
            path("FEDCAST_CACHE").unwrap_or_else(|| caches().join("fedcast")).join("data")
        });
        let home = path("HF_HOME").unwrap_or_else(|| {
            // The hub's clients use this place on all platforms, not the platform's folder of caches.
            let caches = path("XDG_CACHE_HOME").or_else(|| Some(dirs::home_dir()?.join(".cache")));
            caches.unwrap_or_else(|| PathBuf::from(".cache")).join("huggingface")
        });
        let hub = path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE"));
        let token_file = path("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let kept = || Some(std::fs::read_to_string(token_file).ok()?.trim().to_owned());
        let token = value("HF_TOKEN").or_else(|| value("HUGGING_FACE_HUB_TOKEN")).or_else(kept);
        let offline = [
            ("FEDCAST_OFFLINE", "FEDCAST_OFFLINE is set"),
            ("HF_HUB_OFFLINE", "HF_HUB_OFFLINE is set"),
        ];
        Settings {
            data,
            hub: hub.unwrap_or_else(|| home.join("hub")),
            endpoint: value("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned()),
            token: token.filter(|token| !token.is_empty()),
            mirror: value("FEDCAST_MIRROR"),
            offline: offline.into_iter().find(|(key, _)| is_on(value(key))).map(|(_, why)| why),
            progress: true,
        }
    }

    /// Returns settings with all folders below `folder` and downloads disabled.
    pub fn below(folder: &Path) -> Settings {
        Settings {
            data: folder.join("data"),
            hub: folder.join("hub"),
            endpoint: String::new(),
            token: None,
            mirror: None,
            offline: Some("--offline"),
            progress: false,
        }
    }
}

fn value(key: &str) -> Option<String> {
    env::var(key)
        .ok()
        .map(|value| value.trim().trim_end_matches('/').to_owned())
        .filter(|v| !v.is_empty())
}

/// Returns true for the values that the hub's clients take for yes.
fn is_on(value: Option<String>) -> bool {
    value.is_some_and(|value| ["1", "ON", "YES", "TRUE"].contains(&value.to_uppercase().as_str()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yes_is_what_the_hub_takes_for_yes() {
        for (text, on) in [("1", true), ("true", true), ("On", true), ("0", false), ("no", false)] {
            assert_eq!(is_on(Some(text.to_owned())), on, "{text}");
        }
        assert!(!is_on(None));
    }
}
