//! The environment's settings of engine selection.

use std::ffi::OsString;
use std::path::PathBuf;

use hipdnn_plugin_sdk::environment::{self, cache_root};

use super::{BUILT_IN, Cache, Metric};
use hipdnn_plugin_sdk::engine_id;

/// The variables with lists.
const POLICY_ORDER: &str = "HIPDNN_HEUR_POLICY_ORDER";
const FALLBACK_ORDER: &str = "HIPDNN_HEUR_FALLBACK_ENGINE_ORDER";

/// The settings of engine selection, as the environment had them when plugins were loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// `HIPDNN_HEUR_POLICY_ORDER`: the policies to ask, overriding the caller's.
    pub policy_order: Option<Vec<i64>>,
    /// The names in it and in `fallback_order`, for messages.
    names: Vec<(i64, String)>,
    /// `HIPDNN_HEUR_CONFIG_PATH`: the file with the user's rules.
    pub config_path: Option<PathBuf>,
    /// `HIPDNN_HEUR_FALLBACK_ENGINE_ORDER`: the only engines that the static order offers, best first.
    pub fallback_order: Option<Vec<i64>>,
    /// `HIPDNN_HEUR_RANKING_METRIC`: what predictions rank engines by, overriding the caller's.
    pub ranking_metric: Option<Metric>,
    /// The rankings on disk, unless they are switched off.
    pub rankings: Option<Cache>,
    /// `HIPDNN_PLAN_CACHE_DIR`: the folder of stored plans, unless caches are switched off.
    pub plan_folder: Option<PathBuf>,
}

impl Settings {
    /// Reads the environment.
    pub fn from_environment() -> Self {
        Self::read(environment::path)
    }

    fn read(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let list = |name: &str| variable(name).map(|value| entries(&value.to_string_lossy()));
        let policies = list(POLICY_ORDER);
        let fallback = list(FALLBACK_ORDER);
        let ids = |list: &Option<Vec<(i64, String)>>| {
            list.as_ref().map(|list| list.iter().map(|(id, _)| *id).collect())
        };
        let is_true = |name: &str| variable(name).is_some_and(|value| environment::is_true(&value));
        let is_off = is_true("HIPDNN_DISABLE_CACHE") || is_true("HIPDNN_DISABLE_EXACT_ENGINE_CACHE");
        Self {
            policy_order: ids(&policies),
            fallback_order: ids(&fallback),
            names: policies.into_iter().chain(fallback).flatten().collect(),
            config_path: variable("HIPDNN_HEUR_CONFIG_PATH").map(PathBuf::from),
            ranking_metric: variable("HIPDNN_HEUR_RANKING_METRIC")
                .and_then(|name| metric(&name.to_string_lossy())),
            plan_folder: variable("HIPDNN_PLAN_CACHE_DIR")
                .filter(|_| !is_true("HIPDNN_DISABLE_CACHE"))
                .map(PathBuf::from),
            rankings: if is_off { None } else { cache_root(&variable).map(|root| Cache::new(&root)) },
        }
    }

    /// Whether the default policies may leave out an engine, or have no answer.
    pub fn may_leave_out_engines(&self) -> bool {
        self.policy_order.is_some() || self.fallback_order.is_some()
    }

    /// The environment's name of a policy or an engine.
    pub fn name_of(&self, id: i64) -> Option<&str> {
        self.names.iter().find(|(known, _)| *known == id).map(|(_, name)| name.as_str())
    }

    /// Drops policies and engines that are not loaded, and lists without any other. Returns the complaints.
    pub fn keep_loaded(
        &mut self,
        is_policy: impl Fn(i64) -> bool,
        is_engine: impl Fn(i64) -> bool,
    ) -> Vec<String> {
        let mut complaints = Vec::new();
        let mut keep =
            |list: &mut Option<Vec<i64>>, variable: &str, what: &str, is_loaded: &dyn Fn(i64) -> bool| {
                let Some(ids) = list else { return };
                let unknown: Vec<&str> = self
                    .names
                    .iter()
                    .filter(|(id, _)| ids.contains(id) && !is_loaded(*id))
                    .map(|(_, name)| name.as_str())
                    .collect();
                let unknown = unknown.join(", ");
                ids.retain(|id| is_loaded(*id));
                if ids.is_empty() {
                    complaints.push(format!(
                        "{variable} names no loaded {what} ({unknown}): the default order counts"
                    ));
                    *list = None;
                } else if !unknown.is_empty() {
                    complaints.push(format!("{variable} names {unknown}, which no loaded plugin has"));
                }
            };
        keep(&mut self.policy_order, POLICY_ORDER, "policy", &|id| {
            BUILT_IN.iter().any(|(own, _)| *own == id) || is_policy(id)
        });
        keep(&mut self.fallback_order, FALLBACK_ORDER, "engine", &is_engine);
        complaints
    }
}

/// The entries of a comma-separated list, each a name or a number, as ids and as written.
fn entries(list: &str) -> Vec<(i64, String)> {
    let entries = list.split(',').map(str::trim).filter(|entry| !entry.is_empty());
    entries.map(|entry| (entry.parse().unwrap_or_else(|_| engine_id(entry)), entry.to_owned())).collect()
}

/// The metric of a name; nonsense counts as the default, with a line in the log.
fn metric(name: &str) -> Option<Metric> {
    let metric = Metric::named(name.trim());
    if metric.is_none() {
        crate::log::warn(|| format!("HIPDNN_HEUR_RANKING_METRIC is {name:?}, expected tflops or time"));
    }
    metric
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use hipdnn_plugin_sdk::environment::{CACHE, HOME};

    use super::*;
    use crate::selection::{CONFIG, STATIC_ORDERING};

    fn settings(variables: &[(&str, &str)]) -> Settings {
        Settings::read(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn lists_have_names_and_numbers() {
        let list = " SelectionHeuristic::StaticOrdering, 17 ,,-3,SelectionHeuristic::Config";
        let settings = settings(&[
            ("HIPDNN_HEUR_POLICY_ORDER", list),
            ("HIPDNN_HEUR_FALLBACK_ENGINE_ORDER", "MIOPEN_ENGINE,5"),
        ]);
        assert_eq!(settings.policy_order, Some(vec![STATIC_ORDERING, 17, -3, CONFIG]));
        assert_eq!(settings.name_of(CONFIG), Some("SelectionHeuristic::Config"));
        assert_eq!(settings.fallback_order, Some(vec![0x15b4_6865_c717_a122, 5]));
        assert!(settings.may_leave_out_engines());
    }

    #[test]
    fn lists_without_a_loaded_name_count_as_the_default() {
        let kept = |policies: &str, engines: &str| {
            let variables = [(POLICY_ORDER, policies), (FALLBACK_ORDER, engines)];
            let mut settings = settings(&variables);
            let complaints = settings.keep_loaded(|policy| policy == 17, |engine| engine == 5);
            (settings.policy_order, settings.fallback_order, complaints)
        };
        let (policies, engines, complaints) = kept("foo", "bar, 6");
        assert_eq!((policies, engines), (None, None));
        assert_eq!(
            complaints,
            [
                "HIPDNN_HEUR_POLICY_ORDER names no loaded policy (foo): the default order counts",
                "HIPDNN_HEUR_FALLBACK_ENGINE_ORDER names no loaded engine (bar, 6): the default order counts",
            ]
        );
        let (policies, engines, complaints) = kept("foo,17,SelectionHeuristic::Config", "5,bar");
        assert_eq!((policies, engines), (Some(vec![17, CONFIG]), Some(vec![5])));
        assert_eq!(
            complaints,
            [
                "HIPDNN_HEUR_POLICY_ORDER names foo, which no loaded plugin has",
                "HIPDNN_HEUR_FALLBACK_ENGINE_ORDER names bar, which no loaded plugin has",
            ]
        );
        assert_eq!(kept("17", "5").2, [""; 0]);
        // A list of commas has no name.
        assert_eq!(kept(",", " , ").0, None);
    }

    #[test]
    fn nothing_is_set_by_default_but_the_cache_in_the_home_folder() {
        assert_eq!(settings(&[]), Settings::default());
        let home = settings(&[(HOME, "/home/x")]);
        assert_eq!(
            home.rankings,
            Some(Cache::new(&Path::new("/home/x").join(CACHE.trim_start_matches("~/"))))
        );
        assert!(!home.may_leave_out_engines());
    }

    #[test]
    fn the_metric_is_one_that_is_known() {
        let metric = |name| settings(&[("HIPDNN_HEUR_RANKING_METRIC", name)]).ranking_metric;
        assert_eq!(metric("time"), Some(Metric::Time));
        assert_eq!(metric(" tflops "), Some(Metric::Tflops));
        assert_eq!(metric("latency"), None);
    }

    #[test]
    fn plans_are_stored_only_where_the_environment_says() {
        let folder = |variables: &[(&str, &str)]| settings(variables).plan_folder;
        assert_eq!(folder(&[("HIPDNN_CACHE_DIR", "/a"), (HOME, "/home/x")]), None);
        assert_eq!(folder(&[("HIPDNN_PLAN_CACHE_DIR", "/a")]), Some(PathBuf::from("/a")));
        assert_eq!(folder(&[("HIPDNN_PLAN_CACHE_DIR", "/a"), ("HIPDNN_DISABLE_CACHE", "1")]), None);
    }

    #[test]
    fn the_cache_is_where_the_environment_says_or_nowhere() {
        let cache = |variables: &[(&str, &str)]| settings(variables).rankings;
        assert_eq!(cache(&[("HIPDNN_CACHE_DIR", "/a")]), Some(Cache::new(Path::new("/a"))));
        let home = [("HIPDNN_CACHE_DIR", "~/b"), (HOME, "/home/x")];
        assert_eq!(cache(&home), Some(Cache::new(Path::new("/home/x/b"))));
        assert_eq!(cache(&[("HIPDNN_CACHE_DIR", "~/b")]), None);
        for word in ["1", "TRUE", "on", "Yes", "enable", "enabled"] {
            assert_eq!(cache(&[("HIPDNN_CACHE_DIR", "/a"), ("HIPDNN_DISABLE_CACHE", word)]), None, "{word}");
            let exact = [("HIPDNN_CACHE_DIR", "/a"), ("HIPDNN_DISABLE_EXACT_ENGINE_CACHE", word)];
            assert_eq!(cache(&exact), None, "{word}");
        }
        for word in ["0", "false", "off", "2"] {
            assert!(cache(&[("HIPDNN_CACHE_DIR", "/a"), ("HIPDNN_DISABLE_CACHE", word)]).is_some(), "{word}");
        }
    }
}
