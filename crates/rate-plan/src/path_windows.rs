//! Where the windows of a path are.

use crate::NodeWindow;

/// The windows of a path: beside each other, or among those of the whole tree.
pub(crate) trait PathWindows {
    /// The window of the path's node at this position, which has this index in the tree.
    fn at(&self, position: usize, node: usize) -> NodeWindow;
}

/// Windows that can be replaced.
pub(crate) trait PathWindowsMut: PathWindows {
    /// Replaces the window that [`at`](PathWindows::at) answers.
    fn put(&mut self, position: usize, node: usize, window: NodeWindow);
}

/// One window for each node of the path, leaf to root.
pub(crate) struct Aligned<W>(pub(crate) W);

/// One window for each node of the tree.
pub(crate) struct Dense<W>(pub(crate) W);

impl<W: AsRef<[NodeWindow]>> PathWindows for Aligned<W> {
    fn at(&self, position: usize, _node: usize) -> NodeWindow {
        self.0.as_ref()[position]
    }
}

impl<W: AsRef<[NodeWindow]> + AsMut<[NodeWindow]>> PathWindowsMut for Aligned<W> {
    fn put(&mut self, position: usize, _node: usize, window: NodeWindow) {
        self.0.as_mut()[position] = window;
    }
}

impl<W: AsRef<[NodeWindow]>> PathWindows for Dense<W> {
    fn at(&self, _position: usize, node: usize) -> NodeWindow {
        self.0.as_ref()[node]
    }
}

impl<W: AsRef<[NodeWindow]> + AsMut<[NodeWindow]>> PathWindowsMut for Dense<W> {
    fn put(&mut self, _position: usize, node: usize, window: NodeWindow) {
        self.0.as_mut()[node] = window;
    }
}
