//! One checkpoint as a file.
//!
//! ```text
//! magic and version   8   "FCCK", 3
//! length of the index 8
//! index                   JSON: where in the run and in the journal, and what the frames are
//! frames                  states and downloads, in the wire format, one after another
//! checksum           32   BLAKE3 of everything before it
//! ```

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::federation::{Digests, PendingParticipant, SavedDownload, Snapshot, SnapshotPlace};
use crate::policy::Asset;
use crate::quantity::{ClientId, ParticipantId, Round};
use crate::wire::{self, Body, CodecPlan, FrameHeader, Kind};

const MAGIC: [u8; 8] = *b"FCCK\x03\0\0\0";
const CHECKSUM: usize = blake3::OUT_LEN;

/// Position of a checkpoint in the journal of its run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckpointMark {
    /// Hash of the scenario.
    pub scenario: String,
    /// Entries before it.
    pub entries: u64,
    /// Length of the journal file up to there, in bytes.
    pub position: u64,
    /// Digests up to there.
    pub digests: Digests,
}

#[derive(Serialize, Deserialize)]
struct CheckpointIndex {
    #[serde(flatten)]
    mark: CheckpointMark,
    place: SnapshotPlace,
    round: Round,
    caches: Vec<(ClientId, Vec<u64>)>,
    clients: Vec<ClientId>,
    downs: Vec<DownloadIndex>,
    untransformed: Vec<(Round, ParticipantId)>,
    out: Vec<PendingParticipant>,
    /// Lengths of the frames: the server, the clients, and each download before its assets.
    frames: Vec<u64>,
}

#[derive(Serialize, Deserialize)]
struct DownloadIndex {
    assets: Vec<AssetName>,
}

#[derive(Serialize, Deserialize)]
struct AssetName {
    name: String,
    version: u32,
    kind: Kind,
}

/// Returns the content of the file.
///
/// # Errors
/// Returns a description if a state has no wire format.
pub fn encode(mark: &CheckpointMark, snapshot: &Snapshot) -> Result<Vec<u8>, String> {
    let mut bodies: Vec<&Body> = vec![&snapshot.server];
    bodies.extend(snapshot.clients.iter().map(|(_, body)| body));
    for download in &snapshot.downs {
        bodies.push(&download.body);
        bodies.extend(download.assets.iter().map(|asset| &*asset.body));
    }
    let (header, plan) = (FrameHeader::default(), CodecPlan::default());
    let frames: Result<Vec<Vec<u8>>, _> =
        bodies.into_iter().map(|body| wire::encode(&header, body, &plan)).collect();
    let frames = frames.map_err(|error| error.to_string())?;
    let name = |asset: &Arc<Asset>| AssetName {
        name: asset.name.to_string(),
        version: asset.version,
        kind: asset.kind,
    };
    let download =
        |saved: &SavedDownload| DownloadIndex { assets: saved.assets.iter().map(name).collect() };
    let index = CheckpointIndex {
        mark: mark.clone(),
        place: snapshot.place,
        round: snapshot.round,
        caches: snapshot.caches.clone(),
        clients: snapshot.clients.iter().map(|(client, _)| *client).collect(),
        downs: snapshot.downs.iter().map(download).collect(),
        untransformed: snapshot.untransformed.clone(),
        out: snapshot.out.clone(),
        frames: frames.iter().map(|frame| frame.len() as u64).collect(),
    };
    let index = serde_json::to_vec(&index).map_err(|error| error.to_string())?;
    let mut file = MAGIC.to_vec();
    file.extend((index.len() as u64).to_le_bytes());
    file.extend(index);
    frames.iter().for_each(|frame| file.extend(frame));
    let checksum = blake3::hash(&file);
    file.extend(checksum.as_bytes());
    Ok(file)
}

/// Decodes a file of [`encode`].
///
/// # Errors
/// Returns a description of what is wrong with the file.
pub fn decode(file: &[u8]) -> Result<(CheckpointMark, Snapshot), String> {
    let Some((content, checksum)) = file.split_last_chunk::<CHECKSUM>() else {
        return Err("it is cut off".into());
    };
    if content.get(..MAGIC.len()).is_none_or(|magic| magic != MAGIC) {
        return Err("it is not a checkpoint of this version".into());
    }
    if blake3::hash(content).as_bytes() != checksum {
        return Err("its checksum is wrong".into());
    }
    let mut rest = &content[MAGIC.len()..];
    let length = take(&mut rest, 8)?.try_into().map(u64::from_le_bytes);
    let length = length.map_err(|_| "it is cut off".to_string())?;
    let index = serde_json::from_slice(take(&mut rest, length)?);
    let index: CheckpointIndex =
        index.map_err(|error| format!("its index cannot be read ({error})"))?;
    let mut frames = index.frames.iter();
    let mut body = || -> Result<Body, String> {
        let length = frames.next().ok_or("a frame is missing")?;
        let (_, body) = wire::decode(take(&mut rest, *length)?).map_err(|e| e.to_string())?;
        Ok(body)
    };
    let server = body()?;
    let clients = index.clients.into_iter().map(|client| Ok((client, body()?)));
    let clients: Result<_, String> = clients.collect();
    let clients = clients?;
    let download = |DownloadIndex { assets }: DownloadIndex| {
        let download = body()?;
        let asset = |AssetName { name, version, kind }| {
            Ok(Arc::new(Asset::new(&name, version, kind, body()?)))
        };
        let assets: Result<_, String> = assets.into_iter().map(asset).collect();
        Ok(SavedDownload { body: download, assets: assets? })
    };
    let downloads: Result<Vec<SavedDownload>, String> =
        index.downs.into_iter().map(download).collect();
    let downloads = downloads?;
    if index.out.iter().any(|participant| participant.down >= downloads.len()) {
        return Err("a download is missing".into());
    }
    let snapshot = Snapshot {
        place: index.place,
        round: index.round,
        entries: index.mark.entries,
        server,
        caches: index.caches,
        clients,
        downs: downloads,
        untransformed: index.untransformed,
        out: index.out,
    };
    Ok((index.mark, snapshot))
}

fn take<'a>(rest: &mut &'a [u8], length: u64) -> Result<&'a [u8], String> {
    let whole = *rest;
    let split = usize::try_from(length).ok().and_then(|length| whole.split_at_checked(length));
    let (taken, left) = split.ok_or("it is cut off")?;
    *rest = left;
    Ok(taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::SentFrame;
    use crate::quantity::TaskId;
    use crate::wire::{NamedTensor, Section, TensorValues};

    fn body(value: f32) -> Body {
        let weights = NamedTensor::f32("w", [2], vec![value, f32::NAN]).unwrap();
        let steps = NamedTensor::new("steps", [1], TensorValues::U64(vec![9].into())).unwrap();
        Body::new(vec![1, 2], vec![Section::new(Kind::Weights, vec![weights, steps])])
    }

    fn example() -> (CheckpointMark, Snapshot) {
        let digests = Digests { events: "e".into(), numbers: "n".into() };
        let mark =
            CheckpointMark { scenario: "00ff".into(), entries: 812, position: 90_000, digests };
        let asset = Arc::new(Asset::new("teacher", 3, Kind::Generator, body(3.0)));
        let frames = [(Some("teacher@3".to_string()), true), (None, false)];
        let participant = PendingParticipant {
            round: Round(6),
            participant: ParticipantId(2),
            down: 0,
            frames: frames.map(|(asset, copy)| SentFrame { asset, copy }).to_vec(),
        };
        let snapshot = Snapshot {
            place: SnapshotPlace::Task(TaskId(1)),
            round: Round(7),
            entries: 812,
            server: body(1.0),
            caches: vec![(ClientId(4), vec![u64::MAX])],
            clients: vec![(ClientId(1), body(2.0))],
            downs: vec![SavedDownload { body: body(5.0), assets: vec![asset] }],
            untransformed: vec![(Round(0), ParticipantId(0))],
            out: vec![participant],
        };
        (mark, snapshot)
    }

    #[test]
    fn what_is_written_reads_back() {
        let (mark, snapshot) = example();
        let (read, back) = decode(&encode(&mark, &snapshot).unwrap()).unwrap();
        assert_eq!(read, mark);
        assert_eq!(back.server.digest(), snapshot.server.digest());
        assert_eq!(back.clients[0].1.digest(), snapshot.clients[0].1.digest());
        assert_eq!(back.downs[0].assets[0].digest(), snapshot.downs[0].assets[0].digest());
        let rest = |s: &Snapshot| (s.place, s.round, s.entries, s.caches.clone());
        assert_eq!(rest(&back), rest(&snapshot));
        assert_eq!((back.untransformed, back.out), (snapshot.untransformed, snapshot.out));
    }

    #[test]
    fn every_cut_and_every_changed_byte_is_noticed() {
        let (mark, snapshot) = example();
        let file = encode(&mark, &snapshot).unwrap();
        for at in 0..file.len() {
            assert!(decode(&file[..at]).is_err(), "cut at {at}");
            let mut changed = file.clone();
            changed[at] ^= 1;
            assert!(decode(&changed).is_err(), "changed at {at}");
        }
    }

    use proptest::prelude::*;

    proptest! {
        /// Written by hand: the checksum is right, and the rest is anything.
        #[test]
        fn any_content_under_a_right_checksum_is_a_checkpoint_or_an_error(
            struck in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
            cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
        ) {
            let (mark, snapshot) = example();
            let mut file = encode(&mark, &snapshot).unwrap();
            file.truncate(file.len() - CHECKSUM);
            for (place, byte) in struck {
                let place = place.index(file.len() - MAGIC.len()) + MAGIC.len();
                file[place] = byte;
            }
            if let Some(cut) = cut {
                file.truncate(cut.index(file.len()));
            }
            let checksum = blake3::hash(&file);
            file.extend(checksum.as_bytes());
            if let Ok((_, back)) = decode(&file) {
                prop_assert!(back.out.iter().all(|participant| participant.down < back.downs.len()));
            }
        }
    }
}
