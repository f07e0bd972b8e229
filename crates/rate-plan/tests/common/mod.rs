//! Both algorithms side by side on one minute. Every answer is asked of both and must be the same.

use std::sync::Arc;

use rate_plan::{
    Adjustment, Decision, NodeWindow, RatePlan, RateTree, Usage, UsageError, Window, adjust_on_path, admit,
    admit_on_path, check, check_on_path, rebuild,
};

/// The raw counters of the reference, the windows of a tree, and windows that are handed over a path at a time, as a
/// store would do it.
#[derive(Clone, Debug)]
pub(crate) struct Both {
    pub(crate) usage: Vec<Usage>,
    window: Window,
    stored: Vec<NodeWindow>,
}

impl Both {
    pub(crate) fn new(tree: &Arc<RateTree>) -> Self {
        Self::with_usage(tree, vec![Usage::default(); tree.len()])
    }

    pub(crate) fn with_usage(tree: &Arc<RateTree>, usage: Vec<Usage>) -> Self {
        let stored = rebuild(tree, |node| usage[node]);
        let mut window = Window::new(Arc::clone(tree));
        for (node, used) in usage.iter().enumerate() {
            // A path of its own for each counter, so that it can be set alone.
            let flat = Arc::new(
                RateTree::flat(vec![(tree.nodes()[node].scope.clone(), Default::default())]).unwrap(),
            );
            let [rpm, tpm] = [used.rpm, used.tpm].map(|it| i64::try_from(it).unwrap());
            window.adjust(&flat.plan(0).unwrap(), Adjustment { rpm, tpm }).unwrap();
        }
        Self { usage, window, stored }
    }

    pub(crate) fn admit(&mut self, plan: &RatePlan, estimate: i64) -> Result<Decision, UsageError> {
        let expected = self.check(plan, estimate);
        let decision = admit(plan, &mut self.usage, estimate);
        assert_eq!(decision, expected, "an admission answers what a check answered");
        assert_eq!(self.window.admit(plan, estimate), decision, "{plan:?}");
        let answer = self.on_path(plan, |windows| admit_on_path(plan, windows, estimate));
        assert_eq!(answer, decision, "{plan:?}");
        decision
    }

    pub(crate) fn check(&self, plan: &RatePlan, estimate: i64) -> Result<Decision, UsageError> {
        let decision = check(plan, &self.usage, estimate);
        assert_eq!(self.window.check(plan, estimate), decision, "{plan:?}");
        let windows: Vec<NodeWindow> = plan.path().as_slice().iter().map(|&node| self.stored[node]).collect();
        assert_eq!(check_on_path(plan, &windows, estimate), decision, "{plan:?}");
        decision
    }

    /// Corrects raw counters as the rule says it, and the windows as the algorithm does it.
    pub(crate) fn adjust(&mut self, plan: &RatePlan, change: Adjustment) -> Result<(), UsageError> {
        let outcome = self.window.adjust(plan, change);
        assert_eq!(self.on_path(plan, |windows| adjust_on_path(plan, windows, change)), outcome);
        if outcome.is_ok() {
            for &node in plan.path().as_slice() {
                let used = &mut self.usage[node];
                used.rpm = used.rpm.saturating_add_signed(change.rpm);
                used.tpm = used.tpm.saturating_add_signed(change.tpm);
            }
        }
        outcome
    }

    /// Another configuration of the same scopes in the same places.
    pub(crate) fn rebuild(&mut self, tree: &Arc<RateTree>) {
        self.window.rebuild(Arc::clone(tree));
        self.stored = rebuild(tree, |node| self.usage[node]);
    }

    /// What was kept step by step is what the counters say.
    pub(crate) fn assert_exact(&self) {
        let wanted = rebuild(self.window.tree(), |node| self.usage[node]);
        assert_eq!(self.window.nodes(), wanted);
        assert_eq!(self.stored, wanted);
    }

    fn on_path<T>(&mut self, plan: &RatePlan, act: impl FnOnce(&mut [NodeWindow]) -> T) -> T {
        let path = plan.path().as_slice();
        let bytes: Vec<_> = path.iter().map(|&node| self.stored[node].to_bytes()).collect();
        let mut windows: Vec<NodeWindow> =
            bytes.iter().map(|bytes| NodeWindow::from_bytes(bytes).unwrap()).collect();
        let answer = act(&mut windows);
        for (&node, window) in path.iter().zip(windows) {
            self.stored[node] = window;
        }
        answer
    }
}
