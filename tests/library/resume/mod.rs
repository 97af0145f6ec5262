//! Promise: a run goes on from any of its checkpoints to the digests it would have had. (What a killed
//! program leaves on the disk is tested with the program.)

mod engine;
mod methods;
