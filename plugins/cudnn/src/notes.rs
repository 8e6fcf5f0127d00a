//! What cuDNN tells of the engine of a configuration: its notes.

use std::ffi::c_int;

use hipdnn_plugin_sdk::PluginError;
use hipdnn_plugin_sdk::dynlib::Object;

use crate::cudnn::Cudnn;
use crate::descriptor::{Open, get};
use crate::knob::Options;
use crate::lowering::Described;
use crate::names::{
    ATTR_ENGINE_BEHAVIOR_NOTE, ATTR_ENGINE_NUMERICAL_NOTE, ATTR_ENGINECFG_ENGINE, BACKEND_ENGINE_DESCRIPTOR,
    BEHAVIOR_NOTE_REQUIRES_BIAS_REORDER, BEHAVIOR_NOTE_REQUIRES_FILTER_REORDER,
    NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, NUMERICAL_NOTE_NONDETERMINISTIC,
    NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, NUMERICAL_NOTE_TENSOR_CORE, TYPE_BACKEND_DESCRIPTOR,
    TYPE_BEHAVIOR_NOTE, TYPE_NUMERICAL_NOTE,
};

/// The notes of a configuration's engine.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// About numerical behavior.
    pub(crate) numerical: Vec<c_int>,
    /// About other behavior and requirements.
    pub(crate) behavior: Vec<c_int>,
}

/// Reads them.
pub(crate) fn notes(cudnn: &'static Cudnn, config: &Object) -> Result<Notes, PluginError> {
    let engine = Open::new(cudnn, BACKEND_ENGINE_DESCRIPTOR)?.into_object();
    let read = |attribute, kind| {
        // More than the number of existing notes.
        let mut notes = vec![-1; 32];
        // SAFETY: the engine is alive, and the type is that of the attribute.
        let count = unsafe { get(cudnn, engine.get(), attribute, kind, &mut notes) }?;
        notes.truncate(count);
        Ok::<_, PluginError>(notes)
    };
    let mut place = [engine.get()];
    // SAFETY: the objects are alive, and the type is that of the attribute.
    unsafe { get(cudnn, config.get(), ATTR_ENGINECFG_ENGINE, TYPE_BACKEND_DESCRIPTOR, &mut place) }?;
    Ok(Notes {
        numerical: read(ATTR_ENGINE_NUMERICAL_NOTE, TYPE_NUMERICAL_NOTE)?,
        behavior: read(ATTR_ENGINE_BEHAVIOR_NOTE, TYPE_BEHAVIOR_NOTE)?,
    })
}

/// cuDNN's notes on numbers; it has none on matmuls of floats, nor on parts of sums that a workspace holds (9.19 rounds some of them on an
/// H200). Whether a configuration has such parts its knobs cannot tell: `cudnn_graph.h` of 9.28 calls SPLIT_K_SLC a number of slices, but has
/// no values of SPLIT_K_BUF, STREAM_K and REDUCTION_MODE, nor the type of the parts. Plans that were timed may be others the next time.
pub(crate) fn numerical_notes(
    notes: &Notes,
    described: &Described,
    workspace: usize,
    options: &Options,
) -> Vec<c_int> {
    let mut all = notes.numerical.clone();
    let note = NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
    if described.multiplies_halves && workspace > 0 && !all.contains(&note) {
        all.push(note);
    }
    if described.rounds_to_tf32 {
        all.extend([NUMERICAL_NOTE_TENSOR_CORE, NUMERICAL_NOTE_DOWN_CONVERT_INPUTS]);
    }
    if options.benchmarking {
        all.push(NUMERICAL_NOTE_NONDETERMINISTIC);
    }
    all
}

/// Why a configuration must not be used.
pub(crate) fn forbidden(notes: &Notes, described: &Described, options: &Options) -> Option<&'static str> {
    let has = |note| notes.numerical.contains(&note);
    let rounds = has(NUMERICAL_NOTE_TENSOR_CORE) || has(NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
    let reorders = |note: &c_int| {
        [BEHAVIOR_NOTE_REQUIRES_FILTER_REORDER, BEHAVIOR_NOTE_REQUIRES_BIAS_REORDER].contains(note)
    };
    if (described.rounds_to_tf32 || described.may_use_tf32 && rounds) && !options.tf32 {
        Some("rounds floats to TF32, which cudnn.tf32 does not allow")
    } else if options.deterministic && has(NUMERICAL_NOTE_NONDETERMINISTIC) {
        Some("is not deterministic, which cudnn.deterministic asks for")
    } else if notes.behavior.iter().any(reorders) {
        Some("expects reordered filters or biases")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::names::BEHAVIOR_NOTE_RUNTIME_COMPILATION;

    #[test]
    fn what_cudnn_does_not_tell_is_added() {
        let notes = Notes { numerical: vec![NUMERICAL_NOTE_NONDETERMINISTIC], ..Notes::default() };
        let matrices = Described { rounds_to_tf32: true, ..Described::default() };
        let of = |notes: &Notes, described: &Described, benchmarking| {
            numerical_notes(notes, described, 1, &Options { benchmarking, ..Options::default() })
        };
        let timed = of(&Notes::default(), &Described::default(), true);
        assert_eq!(of(&notes, &Described::default(), false), timed);
        assert_eq!(
            of(&Notes::default(), &matrices, false),
            [NUMERICAL_NOTE_TENSOR_CORE, NUMERICAL_NOTE_DOWN_CONVERT_INPUTS]
        );
        let halves = Described { multiplies_halves: true, ..Described::default() };
        let parts = |workspace| numerical_notes(&Notes::default(), &halves, workspace, &Options::default());
        assert_eq!((parts(0), parts(512)), (vec![], vec![NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION]));
    }

    #[test]
    fn notes_decide_what_is_taken() {
        let floats = Described { may_use_tf32: true, ..Described::default() };
        let halves = Described::default();
        let matrices = Described { rounds_to_tf32: true, ..Described::default() };
        let options = Options::default();
        let allowed = Options { tf32: true, ..Options::default() };
        let exact = Options { deterministic: true, ..Options::default() };
        let numerical = |notes: &[c_int]| Notes { numerical: notes.to_vec(), ..Notes::default() };
        let behavior = |notes: &[c_int]| Notes { behavior: notes.to_vec(), ..Notes::default() };
        let (cores, changing) =
            (numerical(&[NUMERICAL_NOTE_TENSOR_CORE]), numerical(&[NUMERICAL_NOTE_NONDETERMINISTIC]));
        assert!(forbidden(&cores, &floats, &options).is_some());
        assert!(forbidden(&cores, &floats, &allowed).is_none());
        assert!(forbidden(&Notes::default(), &floats, &options).is_none());
        assert!(forbidden(&Notes::default(), &matrices, &options).is_some());
        assert!(forbidden(&Notes::default(), &matrices, &allowed).is_none());
        assert!(forbidden(&cores, &halves, &options).is_none());
        assert!(forbidden(&changing, &halves, &exact).is_some());
        assert!(forbidden(&changing, &halves, &options).is_none());
        assert!(forbidden(&behavior(&[BEHAVIOR_NOTE_RUNTIME_COMPILATION]), &halves, &options).is_none());
        for reordered in [BEHAVIOR_NOTE_REQUIRES_FILTER_REORDER, BEHAVIOR_NOTE_REQUIRES_BIAS_REORDER] {
            let reason = forbidden(&behavior(&[reordered]), &halves, &options);
            assert!(reason.is_some_and(|reason| reason.contains("order")));
        }
    }
}
