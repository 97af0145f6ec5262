//! `[devices]` as workers.

use crate::federation::Workforce;
use crate::model::{DeviceError, Place};
use crate::scenario::{DeviceName, DevicesSection, Pack, Workers};

/// Workers of a GPU where the scenario leaves their number open: one prepares images while the
/// other computes.
const PER_GPU: u32 = 2;

/// The workers of a run; `asked` is their number (on GPUs: of each) from the command line.
///
/// # Errors
/// A GPU that is not there, or a program built without GPUs.
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
        (0..stated.unwrap_or(PER_GPU)).map(move |_| Place::open(name, compute))
    };
    Ok(Workforce::Gpus(section.names.iter().flat_map(each).collect::<Result<_, _>>()?))
}

/// How many clients a worker trains together at most.
pub fn pack(section: &DevicesSection, workers: &Workforce) -> usize {
    match (section.pack, workers) {
        (Pack::Count(count), _) => count.max(1) as usize,
        // Side by side on the cores is faster.
        (Pack::Auto, Workforce::Cpu(_)) => 1,
        (Pack::Auto, Workforce::Gpus(_)) => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
