//! Line of the journal, whose texts are slices of it.

use std::borrow::Cow;
use std::fmt;

use fedcast::federation::MetricValue;
use serde::de::{DeserializeSeed, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// Entry of the journal. Keys that its event lacks are `None`.
#[derive(Debug, Default)]
pub struct Line<'a> {
    pub seq: u64,
    pub at: u64,
    /// Type of the event; `None` for a seal.
    pub event: Option<&'a str>,
    pub round: Option<u64>,
    pub task: Option<u64>,
    pub phase: Option<u64>,
    pub client: Option<u64>,
    pub participant: Option<u64>,
    pub direction: Option<&'a str>,
    pub outcome: Option<&'a str>,
    pub kind: Option<&'a str>,
    /// Size of a frame in bytes: header, fields, tensor table and payload.
    pub bytes: Option<u64>,
    pub sent: Option<u64>,
    pub latency: Option<u64>,
    pub samples: Option<u64>,
    pub work_ns: Option<u64>,
    pub state_bytes: Option<u64>,
    pub aggregated: Option<u64>,
    pub stale: Option<u64>,
    pub reason: Option<Cow<'a, str>>,
    pub loss: Option<f64>,
    pub correct: Option<u64>,
    pub total: Option<u64>,
    pub digest: Option<&'a str>,
    /// Keys without a column, with their values as JSON.
    pub more: Vec<(&'a str, &'a str)>,
}

impl<'a> Line<'a> {
    /// Parses a line; `None` for a seal.
    pub fn parse(text: &'a str) -> Result<Option<Line<'a>>, serde_json::Error> {
        let mut line = Line::default();
        let mut reader = serde_json::Deserializer::from_str(text);
        Object { line: &mut line, part: Part::Entry }.deserialize(&mut reader)?;
        reader.end()?;
        Ok(line.event.is_some().then_some(line))
    }
}

/// Object within a line, whose keys are stored in the line itself.
#[derive(Clone, Copy)]
enum Part {
    Entry,
    Event,
    FrameBytes,
    Numbers,
}

struct Object<'l, 'a> {
    line: &'l mut Line<'a>,
    part: Part,
}

impl<'a> DeserializeSeed<'a> for Object<'_, 'a> {
    type Value = ();

    fn deserialize<D: Deserializer<'a>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'a> Visitor<'a> for Object<'_, 'a> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let Object { line, part } = self;
        while let Some(key) = map.next_key::<&'a str>()? {
            match part {
                Part::Entry => line.entry(key, &mut map)?,
                Part::Event => line.event(key, &mut map)?,
                Part::FrameBytes => line.frame_bytes(key, &mut map)?,
                Part::Numbers => line.numbers(key, &mut map)?,
            }
        }
        Ok(())
    }
}

impl<'a> Line<'a> {
    fn object<A: MapAccess<'a>>(&mut self, part: Part, map: &mut A) -> Result<(), A::Error> {
        map.next_value_seed(Object { line: self, part })
    }

    fn entry<A: MapAccess<'a>>(&mut self, key: &'a str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "seq" => self.seq = map.next_value()?,
            "at" => self.at = map.next_value()?,
            "event" => self.object(Part::Event, map)?,
            "numbers" => self.object(Part::Numbers, map)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }

    fn event<A: MapAccess<'a>>(&mut self, key: &'a str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "type" => self.event = map.next_value()?,
            "round" => self.round = map.next_value()?,
            "task" => self.task = map.next_value()?,
            "phase" => self.phase = map.next_value()?,
            "client" => self.client = map.next_value()?,
            "participant" => self.participant = map.next_value()?,
            "direction" => self.direction = map.next_value()?,
            "outcome" => self.outcome = map.next_value()?,
            "kind" => self.kind = map.next_value()?,
            "bytes" => self.object(Part::FrameBytes, map)?,
            "sent" => self.sent = map.next_value()?,
            "latency" => self.latency = map.next_value()?,
            "samples" => self.samples = map.next_value()?,
            "work_ns" => self.work_ns = map.next_value()?,
            "state_bytes" => self.state_bytes = map.next_value()?,
            "aggregated" => self.aggregated = map.next_value()?,
            "stale" => self.stale = map.next_value()?,
            "reason" => self.reason = Some(text(map.next_value()?)),
            _ => self.more.push((key, map.next_value::<&RawValue>()?.get())),
        }
        Ok(())
    }

    fn frame_bytes<A: MapAccess<'a>>(&mut self, key: &str, map: &mut A) -> Result<(), A::Error> {
        match key {
            "header" | "meta" | "table" | "payload" => {
                *self.bytes.get_or_insert(0) += map.next_value::<u64>()?;
            }
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }

    fn numbers<A: MapAccess<'a>>(&mut self, key: &'a str, map: &mut A) -> Result<(), A::Error> {
        if key == "digest" {
            self.digest = map.next_value()?;
            return Ok(());
        }
        let raw = map.next_value::<&RawValue>()?.get();
        self.more.push((key, raw));
        match key {
            "metrics" => {
                let losses: Losses = serde_json::from_str(raw).unwrap_or_default();
                self.loss = losses.last_epoch.or(losses.all).map(|loss| loss.0);
            }
            "tasks" => {
                let scores: Vec<Score> = serde_json::from_str(raw).unwrap_or_default();
                self.correct = Some(scores.iter().map(|score| score.correct).sum());
                self.total = Some(scores.iter().map(|score| score.total).sum());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Losses of a training, as `rounds.csv` uses them.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Losses {
    #[serde(rename = "loss_last_epoch")]
    last_epoch: Option<MetricValue>,
    #[serde(rename = "loss")]
    all: Option<MetricValue>,
}

#[derive(Deserialize)]
struct Score {
    correct: u64,
    total: u64,
}

/// Returns the content of a JSON string, copied only if it has escapes.
fn text(raw: &RawValue) -> Cow<'_, str> {
    let bare = raw.get().trim_matches('"');
    match bare.contains('\\') {
        true => serde_json::from_str(raw.get()).map_or(Cow::Borrowed(bare), Cow::Owned),
        false => Cow::Borrowed(bare),
    }
}
