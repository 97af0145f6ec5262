//! Promise: `fedcast report` writes one well-formed page that needs nothing else, with a plot, a description and a table
//! for everything, and with the numbers of the runs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::arms::{HEAD, STSA, figure, run, two_methods};
use crate::command::{read, run_fedcast};

/// The page of these folders.
fn page(folder: &Path, arguments: &[&str]) -> String {
    let output = run_fedcast(folder, &[&["report"], arguments, &["-o", "page.html"]].concat());
    assert_eq!((output.code, output.out.as_str()), (0, "page.html\n"), "{}", output.err);
    read(folder.join("page.html"))
}

/// Two methods over two numbers of clients with two seeds.
fn grid(folder: &Path) {
    for clients in ["3", "4"] {
        for (name, method) in [("fedavg", HEAD), ("stsa", STSA)] {
            for seed in [1, 2] {
                let out = format!("grid/clients={clients},method={name}/seed-{seed}");
                let key = format!("federation.clients={clients}");
                run(folder, &out, method, seed, &["--set", &key]);
            }
        }
    }
}

/// Returns the texts between `from` and `to`, for every place.
fn between<'a>(text: &'a str, from: &str, to: &str) -> Vec<&'a str> {
    text.split(from).skip(1).filter_map(|rest| rest.split(to).next()).collect()
}

/// The cells of a table's rows, as text.
fn rows(table: &str) -> Vec<Vec<String>> {
    let bare = |cell: &str| {
        let text = cell.split_once('>').map_or("", |(_, text)| text);
        text.split('<').next().unwrap_or_default().to_owned()
    };
    let body = between(table, "<tbody>", "</tbody>");
    let cells =
        |row: &str| row.split("<t").filter(|c| c.starts_with(['d', 'h'])).map(bare).collect();
    body.iter().flat_map(|body| between(body, "<tr>", "</tr>")).map(cells).collect()
}

/// The table with this caption.
fn table<'a>(page: &'a str, caption: &str) -> &'a str {
    let tables = between(page, "<table", "</table>");
    let found = tables.into_iter().find(|table| table.contains(&format!("<caption>{caption}")));
    found.unwrap_or_else(|| panic!("no table is called {caption}"))
}

/// Every tag is closed in order, every identifier is there once and every one that is named is there.
fn is_well_formed(page: &str) {
    const VOID: [&str; 3] = ["meta", "!DOCTYPE", "img"];
    let mut open = Vec::new();
    let (before, rest) = page.split_once("<style>").unwrap();
    let rest = rest.split_once("</style>").unwrap().1;
    let mut ids = BTreeSet::new();
    let mut named = Vec::new();
    for tag in [before, rest].iter().flat_map(|part| between(part, "<", ">")) {
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap();
        if let Some(closed) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(closed), "closed out of order");
        } else if !tag.ends_with('/') && !VOID.contains(&name) {
            open.push(name);
        }
        for id in between(tag, " id=\"", "\"") {
            assert!(ids.insert(id), "{id} is there twice");
        }
        for list in ["aria-labelledby=\"", "href=\"#"] {
            named.extend(between(tag, list, "\"").iter().flat_map(|ids| ids.split(' ')));
        }
    }
    assert!(open.is_empty(), "{open:?} stay open");
    for name in named {
        assert!(ids.contains(name), "nothing is called {name}");
    }
}

#[test]
fn the_page_is_whole_and_needs_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    grid(folder.path());
    let page_of = || page(folder.path(), &["grid"]);
    let text = page_of();
    is_well_formed(&text);
    assert_eq!(text, page_of(), "the same runs give the same bytes");
    for outside in ["http", "<script", "<link", "<img", "url(", "@import", "src="] {
        assert!(!text.contains(outside), "{outside}");
    }
    // Nothing of the machine's own places.
    assert!(!text.contains(folder.path().to_str().unwrap()));
    for must in ["prefers-color-scheme:dark", "@media print", "class=\"skip\" href=\"#main\""] {
        assert!(text.contains(must), "{must}");
    }
    let figures = between(&text, "<figure", "</figure>");
    assert!(figures.len() >= 9, "{}", figures.len());
    for figure in &figures {
        for must in
            ["<figcaption>", "role=\"img\"", "<title id=", "<desc id=", "<details>", "<table>"]
        {
            assert!(figure.contains(must), "{must} in {figure}");
        }
        assert!(!rows(figure).is_empty(), "no numbers: {figure}");
    }
    // Headings go down one step at a time.
    let levels =
        text.match_indices("<h").filter_map(|(at, _)| text[at + 2..].chars().next()?.to_digit(10));
    let levels: Vec<u32> = levels.collect();
    assert_eq!(levels[0], 1);
    assert!(levels.windows(2).all(|pair| pair[1] <= pair[0] + 1), "{levels:?}");
    let heads = between(&text, "<thead>", "</thead>").concat();
    assert_eq!(heads.matches("<th").count(), heads.matches("scope=\"col\"").count());
    assert!(text.len() < 250_000, "{}", text.len());
}

#[test]
fn plots_have_a_line_per_method_and_their_tables_the_numbers_of_the_runs() {
    let folder = tempfile::tempdir().unwrap();
    grid(folder.path());
    let at = folder.path();
    let text = page(at, &["grid"]);
    let faa = |clients: u32, method: &str, seed: u32| {
        let run = format!("grid/clients={clients},method={method}/seed-{seed}");
        100.0 * figure(&at.join(run), "/accuracy/faa")
    };
    let spread = |one: f64, two: f64| {
        let mean = (one + two) / 2.0;
        // Of a sample of two.
        let deviation = ((one - mean).powi(2) + (two - mean).powi(2)).sqrt();
        format!("{mean:.2} ± {deviation:.2}")
    };
    // Clients along the bottom, a line per method.
    let figures = between(&text, "<figure", "</figure>");
    let metric = figures.iter().find(|figure| figure.starts_with(" id=\"metric-faa\"")).unwrap();
    let drawing = metric.split("class=\"plot\"").nth(1).unwrap();
    assert!(drawing.contains(">clients</text>") && drawing.contains(">4</text>"), "{drawing}");
    let lines: BTreeSet<&str> = between(drawing, "<polyline", "/>")
        .iter()
        .filter(|line| line.contains("stroke-width=\"2\""))
        .filter_map(|line| line.split("stroke=\"").nth(1)?.split('"').next())
        .collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let legend = between(metric, "<li>", "</li>");
    assert!(legend[0].ends_with("FedAvg") && legend[1].ends_with("STSA"), "{legend:?}");

    let main = rows(table(&text, "Mean ± sample standard deviation"));
    assert_eq!(main.len(), 4);
    let mut cells: BTreeMap<(String, String), String> = BTreeMap::new();
    for row in &main {
        cells.insert((row[0].clone(), row[1].clone()), row[3].clone());
        assert_eq!(row[2], "2");
    }
    for clients in [3, 4] {
        for (method, shown) in [("fedavg", "FedAvg"), ("stsa", "STSA")] {
            let expected = spread(faa(clients, method, 1), faa(clients, method, 2));
            assert_eq!(cells[&(clients.to_string(), shown.to_owned())], expected);
        }
    }
    // Differences are paired by seeds, at the same number of clients, the arm minus its baseline.
    let differences = rows(table(&text, "Mean difference from the baseline"));
    let row = differences.iter().find(|row| row[0] == "clients=4, STSA").unwrap();
    assert_eq!((row[1].as_str(), row[2].as_str()), ("clients=4, FedAvg", "2"));
    let pairs = [1, 2].map(|seed| faa(4, "stsa", seed) - faa(4, "fedavg", seed));
    let mean = (pairs[0] + pairs[1]) / 2.0;
    let sign = if mean > 0.0 { "+" } else { "" };
    // The first metric is FAA; behind the mean are its interval and p.
    let shown = format!("{sign}{mean:.2} (");
    assert!(row[3].starts_with(&shown) && row[3].contains(", p "), "{shown}: {row:?}");
    assert_eq!(differences.len(), 2, "one row per arm");
    assert!(differences.iter().all(|row| row[0].contains("STSA")));
    // The other way round on demand.
    let turned = page(at, &["grid", "--baseline", "method=stsa"]);
    let turned = rows(table(&turned, "Mean difference from the baseline"));
    let sign = if mean < 0.0 { "+" } else { "" };
    let row = turned.iter().find(|row| row[0] == "clients=4, FedAvg").unwrap();
    assert!(row[3].starts_with(&format!("{sign}{:.2} (", -mean)), "{row:?}");

    // A learning curve ends where the run's own table does.
    let curve = rows(table(&text, "Accuracy on all classes seen, clients=3"));
    let last = curve.iter().rfind(|row| row[0] == "FedAvg").unwrap();
    let seen = |seed: u32| {
        let rounds = read(at.join(format!("grid/clients=3,method=fedavg/seed-{seed}/rounds.csv")));
        let mut lines = rounds.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = lines.next().unwrap();
        let column = |name| head.iter().position(|known| *known == name).unwrap();
        let rows: Vec<Vec<&str>> = lines.collect();
        let number = |row: &Vec<&str>, name| row[column(name)].parse::<f64>().unwrap();
        let bytes: f64 =
            rows.iter().map(|row| number(row, "bytes_up") + number(row, "bytes_down")).sum();
        (100.0 * number(rows.last().unwrap(), "accuracy_seen"), bytes)
    };
    assert_eq!(last[1], "2");
    assert_eq!(last[2], spread(seen(1).0, seen(2).0));
    assert_eq!(last[3], format!("{}", (seen(1).1 + seen(2).1) / 2.0));

    // The metrics of the table are those of the plots.
    let ids = between(&text, "<figure id=\"", "\"");
    let metrics = ids.iter().filter(|id| id.starts_with("metric-"));
    assert_eq!(metrics.count(), main[0].len() - 3, "{ids:?}");
    // Arms that were sampled differently are no equals, and it is said.
    assert!(text.contains("arms are not equal in sample passes"), "no note");
}

#[test]
fn a_single_run_and_one_that_failed_have_a_page_too() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "a", HEAD, 1, &["--set", "name=\"<b>bold</b>\""]);
    let output = run_fedcast(at, &["report", "a"]);
    assert_eq!((output.code, output.out.as_str()), (0, "a-report.html\n"), "{}", output.err);
    let text = read(at.join("a-report.html"));
    is_well_formed(&text);
    assert!(text.contains("<h1>&lt;b&gt;bold&lt;/b&gt;</h1>"), "names are escaped");
    assert!(text.contains("fedcast replay a --verify"));
    assert!(!text.contains("id=\"metric-"), "there is nothing to plot one arm over");

    // From inside, the page is next to the run as well.
    let output = run_fedcast(&at.join("a"), &["report", "."]);
    assert_eq!((output.code, output.out.as_str()), (0, "../a-report.html\n"), "{}", output.err);

    let manifest = at.join("a/manifest.json");
    let failed =
        read(&manifest).replace("\"done\"", "\"failed\",\n  \"error\": \"no space <here>\"");
    fs::write(&manifest, failed).unwrap();
    run(at, "b", STSA, 1, &[]);
    let text = page(at, &["a", "b"]);
    is_well_formed(&text);
    let undone = rows(table(&text, "Not done, left out of all means"));
    assert_eq!(undone, [["a", "failed", "no space &lt;here&gt;"]]);
    let main = rows(table(&text, "Mean ± sample standard deviation"));
    let counts: Vec<(&str, &str)> =
        main.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    assert_eq!(counts, [("FedAvg", "0"), ("STSA", "1")]);
}

#[test]
fn a_page_of_two_runs_leaves_that_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "runs/a", HEAD, 1, &[]);
    run(at, "runs/b", STSA, 1, &[]);
    assert_eq!(run_fedcast(at, &["report", "runs/a"]).out, "runs/a-report.html\n");
    let alone = read(at.join("runs/a-report.html"));
    let both = run_fedcast(at, &["report", "runs/a", "runs/b"]);
    assert_eq!((both.code, both.out.as_str()), (0, "runs/a+b-report.html\n"), "{}", both.err);
    assert!(read(at.join("runs/a+b-report.html")).contains("STSA"));
    assert!(read(at.join("runs/a-report.html")) == alone && !alone.contains("STSA"));
}

#[test]
fn a_study_says_what_is_plotted_and_what_is_compared() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    two_methods(at, &[1, 2]);
    fs::rename(at.join("fedavg"), at.join("arm=one")).unwrap();
    fs::rename(at.join("stsa"), at.join("arm=two")).unwrap();
    let study = "schema = 2\nbase = \"base.toml\"\nstudy = \"two & two\"\nreplicates = 2\n\
                 [axes.arm]\none = {}\ntwo = {}\nthree = {}\n[[extra]]\nlabel = \"a lone one\"\n\
                 [compare]\nbaseline = { arm = \"two\" }\nmetrics = [\"faa\", \"bytes_up\"]\n\
                 warn_if_unequal = []\n[report]\nplots = [\"bytes_up\", \"pareto:bytes_up:faa\"]\n";
    fs::write(at.join("study.effective.toml"), study).unwrap();
    let mut cells = "label,arm,seed,status,path,error\n".to_owned();
    for seed in [1, 2] {
        cells.push_str(&format!("arm=one,one,{seed},done,arm=one/seed-{seed},\n"));
        cells.push_str(&format!("arm=two,two,{seed},done,arm=two/seed-{seed},\n"));
    }
    // An extra cell.
    run(at, "a-lone-one/seed-1", &HEAD.replace('}', ",backbone_lr=0.5}"), 1, &[]);
    cells.push_str("a lone one,,1,done,a-lone-one/seed-1,\n");
    cells.push_str("arm=three,three,1,failed,arm=three/seed-1,no data\n");
    fs::write(at.join("cells.csv"), cells).unwrap();
    let output = run_fedcast(at, &["report", "."]);
    assert_eq!((output.code, output.out.as_str()), (0, "./report.html\n"), "{}", output.err);
    let text = read(at.join("report.html"));
    is_well_formed(&text);
    assert!(text.contains("<h1>two &amp; two</h1>"));
    let differences = rows(table(&text, "Mean difference from the baseline"));
    let names: Vec<(&str, &str)> =
        differences.iter().map(|row| (row[0].as_str(), row[1].as_str())).collect();
    // The baseline is one cell, so the extra one is compared with it, as in the study's tables.
    assert_eq!(names, [("arm=one", "arm=two"), ("a lone one", "arm=two")]);
    let ids: Vec<&str> = between(&text, "<figure id=\"", "\"");
    assert!(ids.contains(&"metric-bytes-up") && ids.contains(&"pareto-bytes-up-faa"), "{ids:?}");
    assert!(!ids.iter().any(|id| id.starts_with("curve") || *id == "metric-faa"), "{ids:?}");
    let main = rows(table(&text, "Mean ± sample standard deviation"));
    let arms: Vec<&str> = main.iter().map(|row| row[0].as_str()).collect();
    assert_eq!(arms, ["one", "two", "a lone one"]);
    assert_eq!(main[2][1], "1");
    assert!(text.contains("no data") && text.contains("three/seed-1"));
    assert!(!text.contains("arms are not equal"));
}

#[test]
fn what_cannot_be_shown_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    run(at, "a", HEAD, 1, &[]);
    run(at, "b", STSA, 1, &[]);
    #[cfg(unix)]
    let _listens = std::os::unix::net::UnixListener::bind(at.join("socket")).unwrap();
    for (arguments, must) in [
        (vec!["nowhere"], "no run at or below nowhere"),
        (vec!["a", "b", "--baseline", "method=sta"], "has no value `sta`, only fedavg, stsa"),
        (vec!["a", "b", "--baseline", "color=red"], "no axis `color`"),
        (vec!["a", "b", "--baseline", "method"], "write AXIS=VALUE"),
        (vec!["a", "-o", "b"], "is a folder"),
        #[cfg(unix)]
        (vec!["a", "-o", "socket"], "socket is no regular file"),
    ] {
        let output = run_fedcast(at, &[&["report"], arguments.as_slice()].concat());
        assert_eq!(output.code, 2, "{arguments:?} {}", output.err);
        assert!(output.err.contains(must), "{arguments:?} {}", output.err);
    }
    assert!(!at.join("a-report.html").exists());
}

/// A browser without a window: that of `FEDCAST_BROWSER`, or one on the path.
fn browser() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("FEDCAST_BROWSER") {
        return Some(named.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let names = ["chromium", "chromium-browser", "google-chrome", "firefox"];
    let known =
        names.iter().flat_map(|name| std::env::split_paths(&path).map(move |p| p.join(name)));
    known.into_iter().find(|program| program.is_file())
}

#[test]
fn a_browser_shows_it() {
    let Some(browser) = browser() else {
        println!("no browser is found, so the page is not looked at: name one by FEDCAST_BROWSER");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    two_methods(at, &[1]);
    let text = page(at, &["fedavg", "stsa"]);
    // The same page without its plots: whatever they add to a picture is seen in the difference.
    let (before, rest) = text.split_once("<svg class=\"plot\"").expect("a plot");
    let bare: String = std::iter::once(before)
        .chain(rest.split("<svg class=\"plot\"").map(|part| part.split_once("</svg>").unwrap().1))
        .collect();
    fs::write(at.join("bare.html"), bare).unwrap();
    let (whole, bare) = (picture(&browser, at, "page"), picture(&browser, at, "bare"));
    // An empty page is a few kilobytes.
    assert!(bare.iter().any(|pixel| *pixel != bare[0]), "the page is empty");
    let strokes = |pixels: &[[u8; 3]]| {
        let colored = |p: &&[u8; 3]| p.iter().max().unwrap() - p.iter().min().unwrap() > 60;
        pixels.iter().filter(colored).count()
    };
    let (with, without) = (strokes(&whole), strokes(&bare));
    assert!(with > without + 2_000, "{with} colored pixels with plots, {without} without");
}

/// The pixels of a page of this folder as a browser shows it.
fn picture(browser: &Path, at: &Path, name: &str) -> Vec<[u8; 3]> {
    let picture = at.join(format!("{name}.png"));
    let firefox = browser.to_string_lossy().contains("firefox");
    let mut command = Command::new(browser);
    match firefox {
        true => command.arg("--headless").arg("--screenshot").arg(&picture),
        false => command
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1100,6000"])
            .arg(format!("--user-data-dir={}", at.join("profile").display()))
            .arg(format!("--screenshot={}", picture.display())),
    };
    let url = format!("file://{}", at.join(format!("{name}.html")).display());
    let shown = command.arg(url).output().expect("the browser starts");
    assert!(shown.status.success(), "{}", String::from_utf8_lossy(&shown.stderr));
    let shown = image::open(&picture).expect("the browser takes a picture").into_rgb8();
    shown.pixels().map(|pixel| pixel.0).collect()
}

/// The pictures of a page, as bytes of PNG files, with their texts.
fn pictures(page: &str) -> Vec<(Vec<u8>, &str)> {
    let mut all = Vec::new();
    for tag in between(page, "<img ", ">") {
        let bytes = between(tag, "src=\"data:image/png;base64,", "\"")[0];
        all.push((STANDARD.decode(bytes).unwrap(), between(tag, "alt=\"", "\"")[0]));
    }
    all
}

#[test]
fn inverted_images_are_next_to_their_originals_on_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    run(folder, "runs/sums", STSA, 1, &[]);
    run(folder, "runs/head", HEAD, 1, &[]);
    assert!(!page(folder, &["runs"]).contains("Images found in uploads"));
    let invert = ["invert", "runs/sums", "--prior", "pixels", "--steps", "7", "--images", "2"];
    let output =
        run_fedcast(folder, &[&invert[..], &["--client", "1", "--format", "json"]].concat());
    let found: Value = serde_json::from_str(&output.out).unwrap();
    let text = page(folder, &["runs"]);
    is_well_formed(&text);
    let section = between(&text, "<h2 id=\"inversions\">", "</section>")[0];
    let caption = format!(
        "STSA: client 1, task 1, class {}</figcaption>",
        found["class_name"].as_str().unwrap()
    );
    assert!(section.contains(&caption), "{section}");
    assert!(section.contains("Prior: pixels. Search: 7 steps of Adam at a rate of 0.01."));
    let all = found["features"].as_array().unwrap();
    let file = |name: String| fs::read(folder.join("runs/sums/inversion").join(name)).unwrap();
    let mut wanted = Vec::new();
    for image in all {
        let sample = image["sample"].as_u64().unwrap();
        wanted.push((file(format!("original-{sample}.png")), format!("sample {sample}, original")));
        let alt = format!("sample {sample}, found by its features");
        wanted.push((file(format!("features-{sample}.png")), alt));
    }
    wanted.push((file("upload.png".to_owned()), "image found by the upload".to_owned()));
    let shown: Vec<_> =
        pictures(section).into_iter().map(|(png, alt)| (png, alt.to_owned())).collect();
    assert!(shown == wanted, "other pictures: {section}");
    let items = between(section, "<li>", "</li>");
    for (item, image) in items.iter().zip(all.iter().chain([&found["upload"]])) {
        let [psnr, ssim] = ["psnr", "ssim"].map(|key| image[key].as_f64().unwrap());
        assert!(item.contains(&format!("PSNR {psnr:.2} dB, SSIM {ssim:.3}")), "{item}");
    }
    let table = table(section, &caption.replace("</figcaption>", ""));
    assert_eq!(rows(table).len(), all.len() + 1);
    // A record of an early version: the search by the upload had left the finite numbers.
    let record = folder.join("runs/sums/inversion/inversion.json");
    let mut early: Value = serde_json::from_str(&read(&record)).unwrap();
    for key in ["first_loss", "loss", "psnr", "ssim"] {
        early["upload"][key] = Value::Null;
    }
    fs::write(&record, early.to_string()).unwrap();
    let text = page(folder, &["runs"]);
    let section = between(&text, "<h2 id=\"inversions\">", "</section>")[0];
    let items = between(section, "<li>", "</li>");
    let (of_upload, of_samples) = items.split_last().unwrap();
    assert!(
        of_upload.contains("no likeness, as the search left the finite numbers"),
        "{of_upload}"
    );
    assert!(of_samples.iter().all(|item| item.contains("PSNR") && !item.contains("NaN")));
    // Images of a run that was replaced are not of this one.
    fs::rename(folder.join("runs/sums/inversion"), folder.join("runs/sums/kept")).unwrap();
    assert_eq!(pictures(&page(folder, &["runs/sums"])).len(), wanted.len());
    run(folder, "runs/sums", STSA, 2, &["--force"]);
    assert_eq!(pictures(&page(folder, &["runs/sums"])).len(), 0);
}
