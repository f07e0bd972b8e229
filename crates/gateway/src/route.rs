//! Step 6: which deployment?

use std::cmp::Ordering;
use std::sync::Arc;

use crate::config::Deployment;
use crate::telemetry::Hints;

/// Latencies within this factor of the lowest are as good as it.
const SIMILAR: f64 = 1.2;

/// The deployments in the order in which they are to be tried: those that are not cooled; of these the one that the conversation
/// was with; then by latency, where those within 20% of the lowest are taken as alike and the least used goes first. One without
/// a known latency is tried as if it were fastest, or it would never get one.
///
/// When all are cooled, all are tried: a cooldown spares a broken deployment where there is another.
pub(crate) fn order<'a>(
    deployments: &'a [Arc<Deployment>],
    hints: &Hints,
    affinity: Option<&str>,
) -> Vec<&'a Arc<Deployment>> {
    let all_cooled = deployments.iter().all(|deployment| hints.cooled.contains(&*deployment.id));
    let usable = |deployment: &&Arc<Deployment>| all_cooled || !hints.cooled.contains(&*deployment.id);
    let mut chosen: Vec<_> = deployments.iter().filter(usable).collect();
    let latency = |deployment: &Deployment| hints.latencies.get(&*deployment.id).copied().unwrap_or(0.0);
    let lowest = chosen.iter().map(|deployment| latency(deployment)).fold(f64::INFINITY, f64::min);
    let rank = |deployment: &Deployment| {
        let seconds = latency(deployment);
        let away = affinity != Some(&*deployment.id);
        let used = hints.usages.get(&*deployment.id).copied().unwrap_or(0);
        // All that are alike have one rank.
        (away, if seconds <= lowest * SIMILAR { 0.0 } else { seconds }, used)
    };
    chosen.sort_by(|left, right| {
        let ((left_away, left_seconds, left_used), (right_away, right_seconds, right_used)) =
            (rank(left), rank(right));
        let by_latency = left_seconds.partial_cmp(&right_seconds).unwrap_or(Ordering::Equal);
        left_away.cmp(&right_away).then(by_latency).then(left_used.cmp(&right_used))
    });
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn deployments() -> Vec<Arc<Deployment>> {
        let mut text = "[[models]]\nname = \"m\"\n".to_owned();
        for id in ["a", "b", "c"] {
            text += &format!(
                "[[models.deployments]]\nid = \"{id}\"\nbase_url = \"http://h/v1\"\ninput_usd_per_million = \"0\"\n"
            );
        }
        Config::parse(&text, |_| None).unwrap().models[0].deployments.clone()
    }

    fn hints(cooled: &[&str], latencies: &[(&str, f64)], usages: &[(&str, u64)]) -> Hints {
        Hints {
            cooled: cooled.iter().map(ToString::to_string).collect(),
            latencies: latencies.iter().map(|(id, seconds)| (id.to_string(), *seconds)).collect(),
            usages: usages.iter().map(|(id, tokens)| (id.to_string(), *tokens)).collect(),
        }
    }

    fn order_of(hints: &Hints, affinity: Option<&str>) -> String {
        order(&deployments(), hints, affinity).iter().map(|deployment| &*deployment.id).collect()
    }

    #[test]
    fn the_fastest_goes_first_and_among_similar_the_least_used() {
        let slow_c = &[("a", 0.11), ("b", 0.10), ("c", 0.13)];
        assert_eq!(order_of(&hints(&[], slow_c, &[("b", 5), ("a", 4)]), None), "abc");
        assert_eq!(order_of(&hints(&[], slow_c, &[("b", 5), ("a", 6)]), None), "bac");
    }

    #[test]
    fn one_that_is_not_known_yet_is_tried() {
        assert_eq!(order_of(&hints(&[], &[("a", 0.1), ("b", 0.1)], &[("b", 1)]), None), "cab");
    }

    #[test]
    fn affinity_goes_before_speed_and_not_before_a_cooldown() {
        let latencies = &[("a", 0.1), ("b", 0.2), ("c", 9.0)];
        assert_eq!(order_of(&hints(&[], latencies, &[]), Some("c")), "cab");
        assert_eq!(order_of(&hints(&["c"], latencies, &[]), Some("c")), "ab");
        assert_eq!(order_of(&hints(&[], latencies, &[]), Some("gone")), "abc");
    }

    #[test]
    fn when_all_are_cooled_all_are_tried() {
        assert_eq!(
            order_of(&hints(&["a", "b", "c"], &[("a", 0.3), ("b", 0.1), ("c", 0.2)], &[]), None),
            "bca"
        );
    }
}
