//! Errors of NumPy arrays, with advice.

/// Reason why an array is not the one that a scenario needs.
#[derive(Debug, thiserror::Error)]
pub(in crate::data) enum ArrayError {
    /// Missing bytes, or bytes that are not NumPy's format.
    #[error("{0}")]
    Damaged(String),
    /// Python objects, which only Python can read.
    #[error("an array of Python objects (dtype=object)")]
    Objects,
    /// Rows of named fields, or an unknown type of values.
    #[error("{0}")]
    Kind(String),
    /// Wider values than are supported, in bits.
    #[error("values of {0} bits")]
    Bits(usize),
    /// Another number of axes or rows than expected.
    #[error("shape {found:?} instead of {expected}")]
    Shape { found: Vec<usize>, expected: String },
    /// Rows of another width, in numbers.
    #[error("rows of {0} numbers")]
    Width(usize),
    /// Images of another shape than expected; `likely` is a shape that would fit.
    #[error("images of shape {found:?} instead of {expected:?} each")]
    ImageShape { found: Vec<usize>, expected: [usize; 3], likely: Option<[usize; 3]> },
    /// Type of values that are no pixels.
    #[error("images of the kind {0}")]
    ImageKind(String),
    /// Several values per label.
    #[error("shape {0:?} instead of one label per row")]
    SeveralLabels(Vec<usize>),
    /// Number that is not finite.
    #[error("{value} in row {row}")]
    Infinite { value: f64, row: usize },
    /// Text with an invalid code point, in this row.
    #[error("a text that is no Unicode in row {0}")]
    NoText(usize),
}

impl ArrayError {
    /// Returns the advice for the user.
    pub fn advice(&self) -> String {
        match self {
            ArrayError::Damaged(_) => "Write it again with numpy.save or numpy.savez".to_owned(),
            ArrayError::Objects => {
                "Save texts as x.astype(str) and numbers as x.astype(\"int64\") or x.astype(\"float32\")".to_owned()
            }
            ArrayError::Kind(_) => {
                "Save numbers (x.astype(\"float32\")) or texts (x.astype(str)) in an array of their own"
                    .to_owned()
            }
            ArrayError::Bits(_) => {
                "Save it with at most 64: x.astype(\"float64\") or x.astype(\"int64\")".to_owned()
            }
            ArrayError::Shape { .. } => {
                "Save a row per sample: x.reshape(len(x), -1), or name another array: data.input".to_owned()
            }
            ArrayError::Width(found) => format!("Set data.width = {found}"),
            ArrayError::ImageShape { likely: Some(shape), .. } => {
                format!("Set data.shape = {shape:?} (channels, height, width), or name another array: data.input")
            }
            ArrayError::ImageShape { likely: None, .. } => {
                "Save (images, height, width) or (images, height, width, channels), or name another array: data.input"
                    .to_owned()
            }
            ArrayError::ImageKind(_) => {
                "Save pixels of 0 to 255 as x.astype(\"uint8\") or what the network reads as x.astype(\"float32\")"
                    .to_owned()
            }
            ArrayError::SeveralLabels(_) => {
                "Save the class of each row: y.argmax(axis=1) where they are one-hot".to_owned()
            }
            ArrayError::Infinite { .. } => "Fill or remove such rows before".to_owned(),
            ArrayError::NoText(_) => "Save texts as x.astype(str)".to_owned(),
        }
    }
}

impl From<std::io::Error> for ArrayError {
    fn from(error: std::io::Error) -> ArrayError {
        ArrayError::Damaged(error.to_string())
    }
}
