//! Invented classes of pen strokes and jittered drawings of them.
//!
//! Some classes are plain shapes (bars, arcs, corners, crosses, junctions, zigzags, waves, spirals, open rings), most
//! are *glyphs*: one to three strokes of a pen whose curvature wanders, fixed per class. Every drawing of a class moves its
//! control points, bends it, shears, turns and stretches it, fits it into the frame and picks a pen.

use std::f64::consts::{PI, TAU};

use rand::RngCore;

use crate::canvas::{Canvas, Point, SIDE};
use fedcast::numerics::distributions::{below, chance, normal, uniform};
use fedcast::numerics::streams::{Domain, StreamKey};

/// The strokes of one class, as control points.
type Strokes = Vec<Vec<Point>>;

/// A set of drawn classes.
#[derive(Clone, Debug)]
pub struct Glyphs {
    key: StreamKey,
    classes: Vec<Strokes>,
}

impl Glyphs {
    /// `count` classes that depend on the seed only; the first ones of two sets with the same seed are the same.
    pub fn new(seed: u64, count: usize) -> Glyphs {
        let key = StreamKey::new(seed, Domain::Drawing);
        let classes = (0..count)
            .map(|class| {
                let mut rng = key.round(1).step(class as u64).rng();
                plain_shape(class).unwrap_or_else(|| wandering(&mut rng))
            })
            .collect();
        Glyphs { key, classes }
    }

    /// Number of classes.
    pub fn len(&self) -> usize {
        self.classes.len()
    }

    /// Drawing `number` of class `class`: 8 x 8 gray values of 0 to 255 in steps of 1/16.
    pub fn draw(&self, class: usize, number: u64) -> [u8; SIDE * SIDE] {
        let mut rng = self.key.round(2).client(class as u32).step(number).rng();
        let mut strokes: Strokes = self.classes[class].iter().map(|s| bend(&mut rng, s)).collect();
        place(&mut rng, &mut strokes);
        let mut canvas = Canvas::new();
        let radius = uniform(&mut rng, 0.045, 0.085);
        for stroke in &strokes {
            canvas.draw(stroke, radius);
        }
        canvas.counts().map(|v| ((u16::from(v) * 255 + 8) / 16) as u8)
    }
}

fn circle(center: Point, radius: f64, from: f64, to: f64) -> Vec<Point> {
    (0..=12)
        .map(|i| {
            let angle = from + (to - from) * f64::from(i) / 12.0;
            [center[0] + radius * libm::cos(angle), center[1] + radius * libm::sin(angle)]
        })
        .collect()
}

/// The first classes: shapes with a name. `None` beyond them.
fn plain_shape(class: usize) -> Option<Strokes> {
    let ray = |angle: f64| [0.5 + 0.5 * libm::cos(angle), 0.5 + 0.5 * libm::sin(angle)];
    let center = [0.5, 0.5];
    let turn = |k: usize, of: usize| TAU * k as f64 / of as f64;
    Some(match class {
        // Slanted bars; an upright one would be a digit in some hands.
        0..3 => {
            let angle = [0.0, PI / 4.0, 3.0 * PI / 4.0][class];
            vec![vec![ray(angle), ray(angle + PI)]]
        }
        // Half circles in four directions.
        3..7 => vec![circle(center, 0.5, turn(class - 3, 4), turn(class - 3, 4) + PI)],
        // Open rings: five sixths of a circle.
        7..11 => vec![circle(center, 0.5, turn(class - 7, 4), turn(class - 7, 4) + TAU * 0.8)],
        // Crosses.
        11..13 => {
            let angle = turn(class - 11, 8);
            let arm = |a: f64| vec![ray(a), ray(a + PI)];
            vec![arm(angle), arm(angle + PI / 2.0)]
        }
        // Corners, right and sharp.
        13..21 => {
            let angle = turn(class - 13, 8);
            vec![vec![ray(angle), center, ray(angle + PI / 2.0)]]
        }
        // Junctions of three rays.
        21..29 => {
            let angle = turn(class - 21, 8);
            let spread = if class.is_multiple_of(2) { PI / 2.0 } else { TAU / 3.0 };
            vec![vec![ray(angle - spread), center, ray(angle + spread)], vec![center, ray(angle)]]
        }
        // Zigzags and waves, flat and upright.
        29..33 => {
            let n = if class.is_multiple_of(2) { 3 } else { 4 };
            let flat = class < 31;
            let knee = |i: usize| {
                let (u, v) = (i as f64 / n as f64, (i % 2) as f64);
                if flat { [u, 0.25 + 0.5 * v] } else { [0.25 + 0.5 * v, u] }
            };
            vec![(0..=n).map(knee).collect()]
        }
        33..35 => {
            let wave = |i: u32| {
                let u = f64::from(i) / 16.0;
                let v = 0.5 + 0.3 * libm::sin(TAU * 1.5 * u);
                if class == 33 { [u, v] } else { [v, u] }
            };
            vec![(0..=16).map(wave).collect()]
        }
        // Spirals, both ways round.
        35..39 => {
            let way = if class.is_multiple_of(2) { 1.0 } else { -1.0 };
            let start = turn((class - 35) / 2, 2);
            let arm = |i: u32| {
                let share = f64::from(i) / 20.0;
                let angle = start + way * 1.6 * TAU * share;
                let radius = 0.08 + 0.42 * share;
                [0.5 + radius * libm::cos(angle), 0.5 + radius * libm::sin(angle)]
            };
            vec![(0..=20).map(arm).collect()]
        }
        // Two parallel bars; two nested arcs.
        39..41 => {
            let angle = PI / 4.0 + turn(class - 39, 4);
            let shift =
                |p: Point, by: f64| [p[0] - by * libm::sin(angle), p[1] + by * libm::cos(angle)];
            let bar = |by: f64| vec![shift(ray(angle), by), shift(ray(angle + PI), by)];
            vec![bar(0.25), bar(-0.25)]
        }
        41..45 => {
            let from = turn(class - 41, 4);
            vec![circle(center, 0.5, from, from + PI), circle(center, 0.2, from, from + PI)]
        }
        _ => return None,
    })
}

/// A glyph: one to three strokes of a pen that turns as it goes.
fn wandering(rng: &mut impl RngCore) -> Strokes {
    let strokes = 1 + below(rng, 10) / 5 + below(rng, 4) / 3;
    (0..strokes).map(|_| walk(rng)).collect()
}

fn walk(rng: &mut impl RngCore) -> Vec<Point> {
    let length = uniform(rng, 0.8, 2.6);
    let steps = 12 + (length * 8.0) as u32;
    let stride = length / f64::from(steps);
    let mut at = [uniform(rng, 0.1, 0.9), uniform(rng, 0.1, 0.9)];
    let mut heading = uniform(rng, 0.0, TAU);
    let mut curvature = normal(rng, 0.0, 4.0);
    let mut points = vec![at];
    for _ in 0..steps {
        if chance(rng, 0.12) {
            curvature = if chance(rng, 0.3) { 0.0 } else { normal(rng, 0.0, 5.0) };
        }
        if chance(rng, 0.04) {
            heading += uniform(rng, 1.2, 2.6); // a corner
        }
        // Turn back towards the middle near the border.
        let (dx, dy) = (0.5 - at[0], 0.5 - at[1]);
        let away = dx * libm::cos(heading) + dy * libm::sin(heading) < 0.0;
        if away && dx * dx + dy * dy > 0.16 {
            let side = dx * -libm::sin(heading) + dy * libm::cos(heading);
            heading += 0.5f64.copysign(side);
        }
        heading += curvature * stride;
        at = [at[0] + stride * libm::cos(heading), at[1] + stride * libm::sin(heading)];
        points.push(at);
    }
    points
}

/// Moves a stroke along smooth waves and shakes its points.
fn bend(rng: &mut impl RngCore, stroke: &[Point]) -> Vec<Point> {
    let mut wave = || (uniform(rng, 0.0, TAU), normal(rng, 0.0, 0.035));
    let waves = [[wave(), wave()], [wave(), wave()]];
    let shift = [normal(rng, 0.0, 0.03), normal(rng, 0.0, 0.03)];
    stroke
        .iter()
        .enumerate()
        .map(|(i, p)| {
            let along = TAU * i as f64 / (stroke.len() - 1).max(1) as f64;
            let mut moved = [p[0] + shift[0], p[1] + shift[1]];
            for (axis, waves) in waves.iter().enumerate() {
                for (k, (phase, height)) in waves.iter().enumerate() {
                    moved[axis] += height * libm::sin((k as f64 + 0.5) * along + phase);
                }
            }
            moved
        })
        .collect()
}

/// Turns, shears and stretches all strokes together and fits them into the frame.
fn place(rng: &mut impl RngCore, strokes: &mut Strokes) {
    let turn = normal(rng, 0.0, 0.12);
    let shear = normal(rng, 0.0, 0.18);
    let stretch = libm::exp(normal(rng, 0.0, 0.15));
    let (sin, cos) = (libm::sin(turn), libm::cos(turn));
    for p in strokes.iter_mut().flatten() {
        let (x, y) = (p[0] - 0.5, p[1] - 0.5);
        let (x, y) = (stretch * (x + shear * y), y);
        *p = [cos * x - sin * y, sin * x + cos * y];
    }
    let (mut low, mut high) = ([f64::INFINITY; 2], [f64::NEG_INFINITY; 2]);
    for p in strokes.iter().flatten() {
        for axis in 0..2 {
            low[axis] = low[axis].min(p[axis]);
            high[axis] = high[axis].max(p[axis]);
        }
    }
    // The frame is filled in height and two thirds of its width, as scanned characters are.
    let margin = uniform(rng, 0.02, 0.08);
    let (width, height) = (high[0] - low[0], high[1] - low[1]);
    let fit = (1.0 - 2.0 * margin) / height.max(0.7 * width).max(1e-3);
    let broadest = uniform(rng, 0.45, 0.8);
    let fit = [fit * (broadest / (width * fit).max(1e-3)).min(1.0), fit];
    let offset = [0.03, 0.015].map(|by| normal(rng, 0.0, by));
    for p in strokes.iter_mut().flatten() {
        for axis in 0..2 {
            let middle = (low[axis] + high[axis]) / 2.0;
            p[axis] = 0.5 + offset[axis] + (p[axis] - middle) * fit[axis];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_drawings_depend_on_their_seed_and_number_only() {
        let (few, many) = (Glyphs::new(3, 60), Glyphs::new(3, 80));
        assert_eq!(few.draw(59, 5), many.draw(59, 5));
        assert_ne!(few.draw(59, 5), few.draw(59, 6));
        assert_ne!(few.draw(59, 5), Glyphs::new(4, 60).draw(59, 5));
        assert_eq!((few.len(), many.len()), (60, 80));
    }

    #[test]
    fn every_class_leaves_ink_and_paper() {
        let glyphs = Glyphs::new(1, 150);
        for class in 0..glyphs.len() {
            for number in 0..4 {
                let image = glyphs.draw(class, number);
                let mean = image.iter().map(|&v| u32::from(v)).sum::<u32>() as f64 / 64.0 / 255.0;
                assert!((0.05..0.85).contains(&mean), "class {class}: {mean}");
            }
        }
    }

    /// Recorded once: the embedded weights are reproducible only while drawings are.
    #[test]
    fn the_drawings_never_change() {
        let glyphs = Glyphs::new(1, 64);
        let mut hasher = blake3::Hasher::new();
        for class in 0..64 {
            hasher.update(&glyphs.draw(class, 9));
        }
        assert_eq!(&hasher.finalize().to_hex()[..16], PINNED);
    }

    const PINNED: &str = "92ecf300d46e8328";
}
