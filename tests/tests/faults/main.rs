//! Nothing is lost: what is left when catena is killed, when the power fails, when anything that it needs fails.
//! CATENA_SOAK=1 tries everything, else a sample is tried; CATENA_SEED repeats a run.

mod deadline;
mod delegates;
mod hostile;
mod injected;
mod killed;
mod many;
mod power;
mod storage;
mod threats;
