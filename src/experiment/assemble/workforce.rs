//! `[devices]` as workers.

use std::sync::Arc;

use candle_core::DType;

use crate::data::TaskSequence;
use crate::federation::Workforce;
use crate::model::footprint::{bytes_per_client, clients_that_fit};
use crate::model::{BackboneConfig, DeviceError, DeviceSpec, GpuMemory};
use crate::policy::{ClassCounts, ExchangeFacts, MessageKind, Method, ModelFacts, Stage};
use crate::scenario::{DeviceName, DevicesSection, Pack, Workers};

/// Workers per GPU by default: one prepares images while the other computes.
const PER_GPU: u32 = 2;

/// Returns the workers of a run; `asked` is their number (on GPUs: of each) from the command line.
///
/// # Errors
/// Returns an error if a GPU is not there, or the program was built without GPUs.
pub fn workforce(section: &DevicesSection, asked: Option<u32>) -> Result<Workforce, DeviceError> {
    let stated = match section.workers {
        Workers::Auto => None,
        Workers::Count(count) => Some(count),
    };
    let stated = asked.or(stated).map(|count| count.max(1));
    if section.names.iter().all(|name| *name == DeviceName::Cpu) {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        return Ok(Workforce::Cpu(stated.map_or_else(cores, |count| count as usize)));
    }
    let each = |name: &DeviceName| {
        let (name, compute) = (*name, section.compute);
        (0..stated.unwrap_or(PER_GPU)).map(move |_| DeviceSpec::open(name, compute))
    };
    Ok(Workforce::Gpus(section.names.iter().flat_map(each).collect::<Result<_, _>>()?))
}

/// Size of a client's training.
#[derive(Clone, Copy, Debug)]
pub struct ClientSize {
    /// Configuration of the backbone, frozen or trained.
    pub backbone: BackboneConfig,
    /// Samples per training step.
    pub batch: usize,
    /// Values that it receives, and may train.
    pub values: usize,
}

/// Returns the most values that a client of the last task receives at once.
pub fn received_values(
    method: &dyn Method,
    model: &ModelFacts,
    task_sequence: &TaskSequence,
    rounds: u32,
) -> usize {
    let Some(view) = task_sequence.tasks.last() else { return 0 };
    let stage = Stage::of(Arc::clone(view), task_sequence.tasks.len());
    let counts = ClassCounts::new();
    let of_phase = |phase| {
        let round_in_phase = 0;
        let facts = ExchangeFacts {
            model,
            view,
            stage: view.task,
            phase,
            round_in_phase,
            role: Default::default(),
            counts: &counts,
        };
        let download = method.message_spec(MessageKind::Download, &facts);
        download.tensor_specs().map(|place| place.shape.iter().product::<usize>()).sum::<usize>()
    };
    (0..method.phases(&stage, rounds).len()).map(of_phase).max().unwrap_or(0)
}

/// Returns the maximum number of clients that a worker trains together. It is the scenario's value; else 1 on a CPU,
/// where clients in parallel on the cores are faster, and on GPUs the estimate for the smallest memory, regardless of
/// what is free at the moment.
///
/// # Errors
/// Fails if a GPU does not report its memory.
pub fn pack(
    section: &DevicesSection,
    workers: &Workforce,
    client: &ClientSize,
) -> Result<usize, DeviceError> {
    let places = match (section.pack, workers) {
        (Pack::Count(count), _) => return Ok(count.max(1) as usize),
        (Pack::Auto, Workforce::Cpu(_)) => return Ok(1),
        (Pack::Auto, Workforce::Gpus(places)) => places,
    };
    let mut fit = None;
    for (place, name) in places.iter().zip(names_of(section, places.len())) {
        let Some(memory) = GpuMemory::of(&place.device) else { return Ok(1) };
        let total = memory.total().map_err(|error| DeviceError::refused(name, &error))?;
        let here = place.device.location();
        let sharing = places.iter().filter(|other| other.device.location() == here).count();
        let clients = clients_in(total, sharing, place.compute, client);
        fit = Some(fit.map_or(clients, |fit: usize| fit.min(clients)));
    }
    Ok(fit.unwrap_or(1))
}

/// Returns the device name of each of `places` workers; workers of one device follow one another.
fn names_of(section: &DevicesSection, places: usize) -> impl Iterator<Item = DeviceName> {
    let each = places / section.names.len().max(1);
    section.names.iter().flat_map(move |name| std::iter::repeat_n(*name, each))
}

/// Returns the number of clients in a pack on a GPU of `memory` bytes that `sharing` workers share.
fn clients_in(memory: u64, sharing: usize, compute: DType, client: &ClientSize) -> usize {
    let ClientSize { backbone, batch, values } = client;
    let bytes = bytes_per_client(backbone, compute, *batch, *values);
    clients_that_fit(backbone, compute, bytes, memory, sharing)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::VitConfig;

    #[test]
    fn packs_are_as_the_scenario_says_or_as_memory_allows() {
        let vit = VitConfig::preset("vit-base").expect("a standard network");
        let client = ClientSize { backbone: vit.into(), batch: 16, values: 500_000 };
        let of = |pack, workers| {
            let section = DevicesSection { pack, ..DevicesSection::default() };
            pack_of(&section, &workers, &client)
        };
        let gpus = || Workforce::Gpus(vec![DeviceSpec::cpu(), DeviceSpec::cpu()]);
        assert_eq!(of(Pack::Count(7), Workforce::Cpu(2)), 7);
        assert_eq!(of(Pack::Count(7), gpus()), 7);
        assert_eq!(of(Pack::Auto, Workforce::Cpu(2)), 1);
        assert_eq!(of(Pack::Auto, gpus()), 1, "places without a memory of their own");
        let gigabytes = |n: u64| n << 30;
        let alone = clients_in(gigabytes(80), 1, DType::BF16, &client);
        let shared = clients_in(gigabytes(80), 2, DType::BF16, &client);
        assert!(shared > 1 && shared < alone, "{shared} and {alone}");
    }

    fn pack_of(section: &DevicesSection, workers: &Workforce, client: &ClientSize) -> usize {
        pack(section, workers, client).expect("nothing to be refused")
    }

    #[test]
    fn the_command_line_goes_before_the_scenario() {
        let section = DevicesSection { workers: Workers::Count(3), ..DevicesSection::default() };
        let count = |asked| workforce(&section, asked).unwrap().count();
        assert_eq!((count(None), count(Some(2)), count(Some(0))), (3, 2, 1));
    }

    #[test]
    fn a_gpu_that_is_not_there_is_an_error() {
        let names = vec![DeviceName::Cuda(4_000)];
        let section = DevicesSection { names, ..DevicesSection::default() };
        let error = workforce(&section, None).unwrap_err().to_string();
        assert!(error.contains("cuda:4000"), "{error}");
    }
}
