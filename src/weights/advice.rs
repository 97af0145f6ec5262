//! Advice in errors: the command that converts a file, and the meaning of tensors that a plain network lacks.

use std::path::Path;

/// Returns the command that converts a PyTorch file.
pub(super) fn convert_torch(file: &str) -> String {
    let out = Path::new(file).with_extension("safetensors");
    format!(
        "if you trust whoever wrote it, convert it where PyTorch is:\n  python -c 'import sys, torch; from safetensors.torch \
         import save_file; s = torch.load(sys.argv[1], map_location=\"cpu\"); s = s.get(\"state_dict\", s.get(\"model\", s)); \
         save_file({{k: v.contiguous().clone() for k, v in s.items() if torch.is_tensor(v)}}, sys.argv[2])' '{file}' '{}'",
        out.display()
    )
}

/// Returns the command that converts a NumPy file.
pub(super) fn convert_npz(file: &str) -> String {
    let out = Path::new(file).with_extension("safetensors");
    format!(
        "convert it where NumPy is:\n  python -c 'import sys, numpy; from safetensors.numpy import save_file; \
         save_file({{k: numpy.ascontiguousarray(v) for k, v in numpy.load(sys.argv[1]).items()}}, sys.argv[2])' '{file}' '{}'",
        out.display()
    )
}

/// Meaning of parts of tensor names in known networks.
const PARTS: [(&[&str], &str); 11] = [
    (&[".ls1.", ".ls2.", "layer_scale", "lambda1", "gamma_1", "gamma_2"], "LayerScale"),
    (&["reg_token", "register_token"], "register tokens"),
    (&["norm_pre", "pre_layrnorm", "ln_pre"], "a norm before the blocks"),
    (&["q_norm", "k_norm", "layernorm_q", "layernorm_k"], "norms of queries and keys"),
    (&["dist_token", "distillation_token"], "a distillation token"),
    (&["fc_norm"], "a norm behind averaged tokens"),
    (&["attn_pool"], "pooling by attention"),
    (&["relative_position", "rel_pos"], "relative positions"),
    (&["w12", "fc1_g", "weights_in", "gate"], "gated perceptrons"),
    (&["rope", "freqs"], "rotary positions"),
    (&["lora_", "adapter"], "adapters"),
];

/// Returns a description of the tensors with these names, if it is known.
pub(super) fn meaning(names: &[String]) -> Option<String> {
    let known = PARTS.iter().filter(|(parts, _)| {
        names.iter().any(|name| parts.iter().any(|part| format!(".{name}").contains(part)))
    });
    let words: Vec<&str> = known.map(|(_, word)| *word).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_called_by_their_names_and_others_by_none() {
        let meaning_of = |name: &str| meaning(&[name.to_owned()]);
        assert_eq!(meaning_of("blocks.0.ls1.gamma").as_deref(), Some("LayerScale"));
        assert_eq!(meaning_of("ls1.gamma").as_deref(), Some("LayerScale"));
        assert_eq!(
            meaning_of("blocks.3.attn.q_norm.weight").as_deref(),
            Some("norms of queries and keys")
        );
        assert_eq!(meaning_of("blocks.3.attn.proj.weight"), None);
    }
}
