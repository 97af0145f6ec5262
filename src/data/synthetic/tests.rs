use super::*;

fn options() -> SyntheticOptions {
    SyntheticOptions { classes: 4, width: 50, train_samples: 300, ..SyntheticOptions::default() }
}

/// Returns the mean row of some samples.
fn mean(split: &Split, samples: &[u32]) -> Vec<f64> {
    let (rows, width) = split.rows(samples).unwrap();
    let mut sums = vec![0.0; width];
    for row in rows.chunks_exact(width) {
        sums.iter_mut().zip(row).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    sums.iter().map(|sum| sum / samples.len() as f64).collect()
}

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum::<f64>().sqrt()
}

#[test]
fn class_means_are_apart_as_asked_and_the_parts_share_them() {
    let data =
        open(&SyntheticOptions { separation: 10.0, test_samples: 300, ..options() }).unwrap();
    let of = |split: &Split, class: usize| mean(split, &split.by_class()[class]);
    // Six pairs; the mean of 300 samples is within sqrt(50 / 300) of the class mean.
    let mut squares = Vec::new();
    for one in 0..4 {
        assert!(distance(&of(&data.train, one), &of(&data.test, one)) < 1.0);
        squares.extend(
            (0..one).map(|two| distance(&of(&data.train, one), &of(&data.train, two)).powi(2)),
        );
    }
    let typical = (squares.iter().sum::<f64>() / 6.0).sqrt();
    assert!((8.5..11.5).contains(&typical), "{typical}");
}

#[test]
fn noise_has_deviation_one_and_every_sample_its_own() {
    let data = open(&options()).unwrap();
    let of_class = &data.train.by_class()[2];
    let (rows, width) = data.train.rows(of_class).unwrap();
    let center = mean(&data.train, of_class);
    let square =
        |(place, value): (usize, &f32)| (f64::from(*value) - center[place % width]).powi(2);
    let variance = rows.iter().enumerate().map(square).sum::<f64>() / rows.len() as f64;
    assert!((variance - 1.0).abs() < 0.05, "{variance}");
    assert_ne!(rows[..width], rows[width..2 * width]);
    assert_ne!(data.train.rows(&[2]), data.test.rows(&[2]));
}

#[test]
fn a_sample_depends_on_its_place_alone() {
    let [few, many] = [2, 40]
        .map(|train_samples| open(&SyntheticOptions { train_samples, ..options() }).unwrap().train);
    assert_eq!(few.rows(&[7, 0]), many.rows(&[7, 0]));
    // A subset and a chosen part draw the rows of the samples that they hold.
    let first = many.first_of_each_class(1).unwrap();
    assert_eq!(first.rows(&[3]), many.rows(&[3]));
    let chosen = Split::chosen(&many, vec![9, 5], vec![1, 1], 4).unwrap();
    assert_eq!(chosen.rows(&[1]), many.rows(&[5]));
    let other = open(&SyntheticOptions { seed: 1, ..options() }).unwrap().train;
    assert_ne!(other.rows(&[7]), many.rows(&[7]));
}

#[test]
fn owners_hold_their_classes_and_shift_them() {
    let data = open(&SyntheticOptions {
        clients: Some(3),
        classes_per_client: Some(2),
        client_shift: 8.0,
        separation: 0.0,
        ..options()
    })
    .unwrap();
    let owners = data.train.owners().unwrap();
    let held = |client: u32| {
        let of = (0..data.train.len()).filter(|sample| owners[*sample] == client);
        of.map(|sample| data.train.labels()[sample]).collect::<std::collections::BTreeSet<u32>>()
    };
    // Two each, and one more where no owner drew a class.
    let classes: Vec<usize> = (0..3).map(|client| held(client).len()).collect();
    assert!(classes.iter().all(|held| (2..=3).contains(held)), "{classes:?}");
    // Without separation a class differs between owners, and an owner's classes do not.
    let of = |client: u32| {
        let samples: Vec<u32> =
            (0..data.train.len() as u32).filter(|s| owners[*s as usize] == client).collect();
        mean(&data.train, &samples)
    };
    let apart = [(0, 1), (0, 2), (1, 2)].map(|(a, b)| distance(&of(a), &of(b)).powi(2));
    let typical = (apart.iter().sum::<f64>() / 3.0).sqrt();
    assert!((6.0..10.0).contains(&typical), "{typical}");
}

#[test]
fn all_owners_take_turns_where_each_holds_all_classes() {
    let clients = Some(3);
    let data = open(&SyntheticOptions { clients, classes: 2, train_samples: 3, ..options() });
    assert_eq!(data.unwrap().train.owners().unwrap(), [0, 0, 1, 1, 2, 2]);
}

#[test]
fn the_digest_follows_every_option() {
    let with_owners = SyntheticOptions { clients: Some(3), ..options() };
    let all = [
        options(),
        SyntheticOptions { width: 51, ..options() },
        SyntheticOptions { separation: 4.5, ..options() },
        SyntheticOptions { seed: 1, ..options() },
        with_owners,
        SyntheticOptions { classes_per_client: Some(1), ..with_owners },
        SyntheticOptions { client_shift: 1.0, ..with_owners },
    ];
    let digest = |options: &SyntheticOptions| open(options).unwrap().train.digest().unwrap();
    let digests: Vec<_> = all.iter().map(digest).collect();
    for (place, one) in digests.iter().enumerate() {
        assert!(!digests[..place].contains(one), "{:?}", all[place]);
    }
    assert_ne!(digests[0], open(&options()).unwrap().test.digest().unwrap());
}
