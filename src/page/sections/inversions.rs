//! Images that feature inversion found in uploads, next to the clients' images.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use maud::{Markup, html};

use crate::experiment::{FoundImage, InversionPicture, InversionRecord, TargetKind};
use crate::page::PageSection;
use crate::page::content::PageContent;
use crate::page::html::HtmlTable;
use crate::results::RunInversion;

/// Most images of an inversion whose pictures are shown.
const MOST: usize = 8;

/// Width in pixels below which pictures are enlarged without smoothing.
const COARSE: usize = 96;

/// Returns the section, a figure per inversion.
pub fn section(content: &PageContent) -> Option<PageSection> {
    let body = html! {
        p.note {
            "Images that a curious server finds in an upload by " code { "fedcast invert" } ", next to those of the client. "
            "A higher peak signal-to-noise ratio (PSNR), a higher structural similarity (SSIM) and a lower perceptual distance "
            "(LPIPS) are closer to the original."
        }
        @for (at, (arm, inversion)) in content.inversions.iter().enumerate() {
            (figure(at, &content.label(*arm), inversion))
        }
    };
    let section = PageSection::of("inversions", "Images found in uploads", body);
    (!content.inversions.is_empty()).then_some(section)
}

/// Renders an inversion: pairs of images, the image found by the upload, and all numbers.
fn figure(at: usize, arm: &str, inversion: &RunInversion) -> Markup {
    let record = &inversion.record;
    let InversionRecord { client, task, class_name, features, .. } = record;
    let title = format!("{arm}: client {client}, task {task}, class {class_name}");
    let left_out = features.len().saturating_sub(MOST);
    html! {
        figure id={ "inversion-" (at + 1) } {
            figcaption { (title) }
            p { (settings(record)) }
            ul.pictures {
                @for image in features.iter().take(MOST) { (pair(inversion, image)) }
                (upload(inversion))
            }
            @if left_out > 0 { p { (left_out) " more in " (inversion.folder.display()) } }
            details {
                summary { "Numbers of this figure" }
                (numbers(record).render(&title))
            }
        }
    }
}

/// Words for the target of an inversion.
struct TargetWords {
    /// Vector of a single image.
    vector: &'static str,
    /// Target in the upload, and that of single images.
    sentence: String,
}

fn target_words(record: &InversionRecord) -> TargetWords {
    let of = match record.samples {
        1 => "of the one image".to_owned(),
        samples => format!("of {samples} images"),
    };
    match record.target {
        TargetKind::Means => TargetWords {
            vector: "features",
            sentence: format!(
                "the mean feature {of} of the class in the upload, and, as the worst case, the features of single images"
            ),
        },
        TargetKind::Update => TargetWords {
            vector: "gradient",
            sentence: format!(
                "the direction in which training moved the parameters of the upload, {of} of the class among others, \
                 and, as the worst case, the gradients of single images"
            ),
        },
    }
}

/// Returns target, form of the image and search in words.
fn settings(record: &InversionRecord) -> String {
    let InversionRecord { prior, steps, rate, .. } = record;
    let target = target_words(record).sentence;
    format!("Target: {target}. Prior: {prior}. Search: {steps} steps of Adam at a rate of {rate}.")
}

/// Renders a client's image next to the one that its features gave.
fn pair(inversion: &RunInversion, image: &FoundImage) -> Markup {
    let Some(sample) = image.sample else { return html! {} };
    let name = format!("sample {sample}");
    let vector = target_words(&inversion.record).vector;
    html! {
        li {
            (picture(inversion, InversionPicture::Original(sample), &format!("{name}, original")))
            (picture(inversion, InversionPicture::Features(sample), &format!("{name}, found by its {vector}")))
            p { "Sample " (sample) " (left) and the image found by its " (vector) ": " (likeness(image)) }
        }
    }
}

/// Renders the image that the upload gave.
fn upload(inversion: &RunInversion) -> Markup {
    let RunInversion { record, .. } = inversion;
    let means = record.features.len() > 1 && record.upload.is_finite();
    let mean = if means { ", means over the images" } else { "" };
    html! {
        li {
            (picture(inversion, InversionPicture::Upload, "image found by the upload"))
            p { "The image found by the upload: " (likeness(&record.upload)) (mean) }
        }
    }
}

/// Renders a picture, which is embedded; nothing if its file is missing.
fn picture(inversion: &RunInversion, of: InversionPicture, alt: &str) -> Markup {
    let bytes = inversion.pictures.get(&of);
    let coarse = inversion.record.width < COARSE;
    html! {
        @if let Some(bytes) = bytes {
            img.coarse[coarse] src={ "data:image/png;base64," (STANDARD.encode(bytes)) } alt=(alt)
                width=(inversion.record.width) height=(inversion.record.height);
        }
    }
}

fn likeness(image: &FoundImage) -> String {
    if !image.is_finite() {
        return "no likeness, as the search left the finite numbers; repeat it with a lower --rate"
            .to_owned();
    }
    let lpips = image.lpips.map(|lpips| format!(", LPIPS {lpips:.3}")).unwrap_or_default();
    format!("PSNR {:.2} dB, SSIM {:.3}{lpips}", image.psnr, image.ssim)
}

/// Returns the numbers of all images.
fn numbers(record: &InversionRecord) -> HtmlTable {
    let measured = record.upload.lpips.is_some();
    let head = ["image found by", "first loss", "last loss", "PSNR, dB", "SSIM", "LPIPS"];
    let columns = if measured { head.len() } else { head.len() - 1 };
    let mut table = HtmlTable::new(1, head.into_iter().take(columns));
    for image in record.features.iter().chain([&record.upload]) {
        let source = match image.sample {
            Some(sample) => format!("{} of sample {sample}", target_words(record).vector),
            None => "upload".to_owned(),
        };
        let FoundImage { first_loss, loss, psnr, ssim, lpips, .. } = image;
        let likeness = |number: String| if image.is_finite() { number } else { "NaN".to_owned() };
        let cells = [
            source,
            format!("{first_loss:.3e}"),
            format!("{loss:.3e}"),
            likeness(format!("{psnr:.2}")),
            likeness(format!("{ssim:.3}")),
            lpips.map_or(String::new(), |lpips| likeness(format!("{lpips:.3}"))),
        ];
        table.row(cells.into_iter().take(columns));
    }
    table
}
