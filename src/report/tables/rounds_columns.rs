//! The columns of `rounds.csv` and `rounds.jsonl`.

use crate::report::column::{Column, PHASE, ROUND, TASK, float, int};

pub(in crate::report) const COLUMNS: &[Column] = &[
    ROUND,
    TASK,
    PHASE,
    float("opened_s", "s", "virtual time at which the round opened"),
    float("closed_s", "s", "virtual time at which it closed; empty if it never did"),
    float(
        "duration_s",
        "s",
        "virtual time from opening to closing; the four columns that follow add up to it",
    ),
    float("work_s", "s", "of it local work of the client whose update was aggregated last"),
    float("links_s", "s", "of it frames to and from that client under way"),
    float(
        "waiting_s",
        "s",
        "of it neither: until a deadline, for clients that send nothing or are away",
    ),
    float("server_s", "s", "of it work of the server's own, when nothing more was waited for"),
    int("sampled", "", "clients that were sampled"),
    int(
        "seats",
        "",
        "places of the round: one per client, or several where a client's shard is cut",
    ),
    int(
        "aggregated",
        "",
        "uploads that were aggregated when it closed, stale ones of earlier rounds included",
    ),
    int("failed", "", "seats that sent nothing: crashed, lost, without data, ..."),
    int("rejected", "", "uploads that were refused for what they hold"),
    int("late", "", "frames of the round that arrived after it had closed and were thrown away"),
    int("bytes_down", "bytes", "whole frames to clients, whatever became of them"),
    int("bytes_up", "bytes", "whole frames from clients, whatever became of them"),
    int(
        "bytes_sent_down",
        "bytes",
        "what of bytes_down crossed links: less only where frames were lost",
    ),
    int("bytes_sent_up", "bytes", "what of bytes_up crossed links"),
    int("bytes_control", "bytes", "headers, typed fields and tensor tables, of both directions"),
    int(
        "bytes_weights",
        "bytes",
        "payload of both directions: parameters of the backbone or of adapters in it",
    ),
    int(
        "bytes_prompt",
        "bytes",
        "payload of both directions: prompts, prefixes, pools and their keys",
    ),
    int("bytes_head", "bytes", "payload of both directions: classifiers"),
    int("bytes_prototypes", "bytes", "payload of both directions: class means, Gaussians"),
    int(
        "bytes_statistics",
        "bytes",
        "payload of both directions: Grams, Fisher information, moments",
    ),
    int("bytes_generator", "bytes", "payload of both directions: generators of images or features"),
    int(
        "bytes_synthetic_data",
        "bytes",
        "payload of both directions: generated images or features",
    ),
    int("bytes_exemplars", "bytes", "payload of both directions: stored real samples"),
    int(
        "bytes_settings",
        "bytes",
        "payload of both directions: counts, seeds, flags that travel as tensors",
    ),
    int(
        "bytes_secure_aggregation",
        "bytes",
        "payload of both directions: keys, shares, member lists",
    ),
    int(
        "bytes_similarity",
        "bytes",
        "payload of both directions: what only finds out which slots are similar",
    ),
    float(
        "compression_ratio",
        "",
        "tensor bytes before the codec over bytes after it, of both directions",
    ),
    float(
        "loss",
        "",
        "mean over seats of the loss at the end of local training, as the method counts it",
    ),
    float(
        "accuracy_seen",
        "share",
        "right answers over all test samples of the tasks so far (micro)",
    ),
    float(
        "response_entropy",
        "nats",
        "mean entropy of clients' answers before aggregation; with record.metrics = [\"federated-bias\"]",
    ),
    float(
        "prototype_distance",
        "",
        "distance of clients' prototypes before aggregation; with record.metrics = [\"federated-bias\"]",
    ),
];
