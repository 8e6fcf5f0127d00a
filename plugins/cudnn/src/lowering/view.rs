//! The shapes that cuDNN accepts: at least three dimensions, for images at least two spatial ones, and for
//! normalizations rows as [rows, elements, 1, 1].

use std::collections::HashSet;

use hipdnn_plugin_planner::Refusal;
use hipdnn_plugin_planner::layout::Layout;
use hipdnn_plugin_planner::problem::Problem;
use hipdnn_plugin_planner::problem::normalization::Normalization;
use hipdnn_plugin_sdk::graph::{Graph, Node, Operation};

use super::shape::{Shape, packed};
use super::{Described, Descriptor, Place, Value, columns};
use crate::names::{
    ATTR_POINTWISE_AXIS, BACKEND_OPERATION_POINTWISE_DESCRIPTOR, BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
};

/// How the graph's tensors are reshaped for cuDNN.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum View {
    /// Prepends ones up to this rank.
    Leading(usize),
    /// Prepends ones up to this rank, then adds ones for missing spatial dimensions: before the last
    /// dimension of images, after channels without pixels. Where convolutions tell whether channels lie
    /// last, strides of dimensions of 1 are those of that layout.
    Image(usize, Option<bool>),
    /// Rows of a normalization: these dims, the first of which (as many as the number says) enumerate rows.
    Rows(Vec<i64>, usize),
}

impl View {
    /// The view that the nodes of a graph need.
    ///
    /// # Errors
    /// When nodes need incompatible shapes.
    pub fn of(graph: &Graph, nodes: &[Node], problems: &[Problem]) -> Result<Self, Refusal> {
        let mut rows = None;
        let mut image = None;
        let mut last = None;
        for (node, problem) in nodes.iter().zip(problems) {
            let spatial = match problem {
                Problem::Normalization(norm) => {
                    let (x, leading) = match norm {
                        Normalization::Forward(norm) => (norm.x, norm.leading),
                        Normalization::Backward(norm) => (norm.x, norm.leading),
                    };
                    let found = (Shape::of(&x.layout).dims, leading);
                    if rows.as_ref().is_some_and(|known| *known != found) {
                        return Err("normalizations of rows of different shapes in one graph".to_owned());
                    }
                    rows = Some(found);
                    None
                }
                Problem::Convolution(convolution) => {
                    last = last.or_else(|| channels_last(graph, &node.operation));
                    Some(convolution.spatial + 2)
                }
                Problem::Resample(resample) => Some(resample.spatial + 2),
                Problem::Batchnorm(_) => batchnorm_rank(graph, &node.operation),
                Problem::Pointwise(_)
                | Problem::Attention(_)
                | Problem::AttentionGradients(_)
                | Problem::Mixture(_)
                | Problem::MixtureGradient(_)
                | Problem::Matmul(_)
                | Problem::Reduction(_)
                | Problem::BlockScale(_) => None,
            };
            image = image.max(spatial);
        }
        let used: HashSet<i64> = nodes.iter().flat_map(|node| node.operation.tensors()).collect();
        let ranks =
            graph.tensors.iter().filter(|tensor| used.contains(&tensor.uid)).map(|tensor| tensor.dims.len());
        let most = ranks.max().unwrap_or(0);
        match (rows, image) {
            (Some(_), Some(_)) => Err("a normalization of rows and one of images in one graph".to_owned()),
            (Some((dims, leading)), None) => Ok(Self::Rows(dims, leading)),
            (None, Some(rank)) => Ok(Self::Image(rank, last)),
            (None, None) => Ok(Self::Leading(most.max(3))),
        }
    }

    /// A tensor's shape for cuDNN.
    ///
    /// # Errors
    /// When rows or their elements cannot be merged into one dimension.
    pub fn shape(&self, layout: &Layout) -> Result<Shape, Refusal> {
        let shape = Shape::of(layout);
        match self {
            Self::Leading(rank) => Ok(shape.lead(*rank)),
            Self::Image(rank, last) => {
                let shape = image(shape.lead(*rank));
                Ok(last.map_or(shape.clone(), |last| shape.lying(last)))
            }
            Self::Rows(dims, leading) => collapse(shape.lead(dims.len()), dims, *leading),
        }
    }

    /// The shape of a tensor with one value per row: dims of rows, possibly followed by ones.
    ///
    /// # Errors
    /// As [`View::shape`].
    pub fn of_rows(&self, layout: &Layout) -> Result<Shape, Refusal> {
        let Self::Rows(dims, leading) = self else { return self.shape(layout) };
        let mut shape = Shape::of(layout);
        while shape.dims.len() < dims.len() {
            shape.dims.push(1);
            shape.strides.push(1);
        }
        collapse(shape, dims, *leading)
    }
}

/// Refuses nodes that no tensor joins: cuDNN 9.19 takes them, and computed only some of them on an H200.
pub(super) fn check_joined(graph: &Graph, nodes: &[Node]) -> Result<(), Refusal> {
    let is_constant = |uid: &i64| graph.tensor(*uid).is_some_and(|tensor| tensor.value.is_some());
    let mut groups: Vec<HashSet<i64>> = Vec::new();
    for node in nodes {
        let tensors = node.operation.tensors().into_iter();
        let mut own: HashSet<i64> = tensors.filter(|uid| !is_constant(uid)).collect();
        let (joined, apart) = groups.into_iter().partition(|group: &HashSet<i64>| !group.is_disjoint(&own));
        groups = apart;
        for mut group in Vec::into_iter(joined) {
            // The smaller one is added to the larger one: nodes are many.
            if group.len() > own.len() {
                std::mem::swap(&mut group, &mut own);
            }
            own.extend(group);
        }
        groups.push(own);
    }
    match groups.len() {
        0 | 1 => Ok(()),
        count => Err(format!("{count} groups of nodes without a tensor in common, expected one")),
    }
}

/// Orders dimensions of pointwise and reduction graphs as cuDNN's kernels require: with four or more
/// dimensions the second is innermost in memory, like channels last. Such graphs do not depend on the meaning
/// of dimensions.
///
/// # Errors
/// When rows are longer than cuDNN supports.
pub(super) fn innermost_second(described: &mut Described) -> Result<(), Refusal> {
    let (pointwise, reduction) =
        (BACKEND_OPERATION_POINTWISE_DESCRIPTOR, BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    if !described.operations.iter().all(|operation| [pointwise, reduction].contains(&operation.kind)) {
        return Ok(());
    }
    let in_memory = described.tensors.iter().filter(|tensor| tensor.place != Place::Virtual);
    let elements = |shape: &Shape| shape.dims.iter().product::<i64>();
    let Some(largest) = in_memory.max_by_key(|tensor| elements(&tensor.shape)) else {
        return Ok(());
    };
    let rank = largest.shape.dims.len();
    let has_axis = described.operations.iter().any(axis_of);
    let reduces = described.operations.iter().any(|operation| operation.kind == reduction);
    if rank < 4 {
        let shapes = described.tensors.iter().map(|tensor| tensor.shape.clone()).collect();
        let shapes = if has_axis { columns::counted(shapes, 2) } else { columns::narrowed(shapes, reduces) }?;
        for (tensor, shape) in described.tensors.iter_mut().zip(shapes) {
            tensor.shape = if reduces { shape } else { shape.lying(false) };
        }
        return Ok(());
    }
    if described.tensors.iter().any(|tensor| tensor_rank(&tensor.shape, rank) != rank) {
        return Ok(());
    }
    let mut axes: Vec<usize> = (0..rank).collect();
    let (dims, strides) = (largest.shape.dims.clone(), largest.shape.strides.clone());
    let stride = |axis: &usize| match (dims.get(*axis), strides.get(*axis)) {
        (Some(2..), Some(stride)) => *stride,
        // The stride of a dimension of 1 is irrelevant.
        _ => i64::MAX,
    };
    axes.sort_by_key(|axis| std::cmp::Reverse(stride(axis)));
    let matrices = if has_axis { None } else { merged(described, &axes) };
    if let Some(shapes) = matrices {
        for (tensor, shape) in described.tensors.iter_mut().zip(columns::narrowed(shapes, reduces)?) {
            tensor.shape = if reduces { shape.into_image() } else { shape.lying(false) };
        }
        return Ok(());
    }
    if let Some(innermost) = axes.pop() {
        axes.insert(1, innermost);
    }
    let shapes = described.tensors.iter().map(|tensor| tensor.shape.picked(&axes)).collect();
    columns::counted(shapes, 1)?;
    for tensor in &mut described.tensors {
        if tensor.shape.dims.len() == rank {
            tensor.shape = tensor.shape.picked(&axes);
        }
    }
    for operation in &mut described.operations {
        for (_, value) in &mut operation.attributes {
            let Value::Descriptor(inner) = value else { continue };
            for (name, value) in &mut inner.attributes {
                if let (&mut ATTR_POINTWISE_AXIS, Value::Integers(axis)) = (name, value)
                    && let [axis] = axis.as_mut_slice()
                {
                    let place = axes.iter().position(|other| i64::try_from(*other) == Ok(*axis));
                    *axis = place.map_or(*axis, |place| place as i64);
                }
            }
        }
    }
    Ok(())
}

/// Whether an operation refers to a dimension.
fn axis_of(operation: &Descriptor) -> bool {
    operation.attributes.iter().any(|(_, value)| match value {
        Value::Descriptor(inner) => inner.attributes.iter().any(|(name, _)| *name == ATTR_POINTWISE_AXIS),
        _ => false,
    })
}

/// The shapes of all tensors as batches of matrices, with dimensions in this order and merged where all
/// tensors allow it; `None` if more than three are left.
fn merged(described: &Described, axes: &[usize]) -> Option<Vec<Shape>> {
    let mut shapes: Vec<Shape> = described.tensors.iter().map(|tensor| tensor.shape.picked(axes)).collect();
    let rank = columns::join(&mut shapes, axes.len(), 0);
    for shape in &mut shapes {
        if shape.dims.len() != rank {
            *shape = packed(&[1; 3]);
        }
        *shape = std::mem::take(shape).lead(3);
    }
    (rank <= 3 && !columns::shares_matrices(&shapes)).then_some(shapes)
}

/// The effective rank: a single element matches any.
fn tensor_rank(shape: &Shape, rank: usize) -> usize {
    if shape.dims.iter().all(|dim| *dim == 1) { rank } else { shape.dims.len() }
}

/// Whether the channels of a convolution's images lie last, if they have any order. Images of one pixel have none: last, as cuDNN's kernels
/// for small types want them. With strides of both layouts in one graph, cuDNN 9.19 takes it and returns NaN for some.
fn channels_last(graph: &Graph, operation: &Operation) -> Option<bool> {
    let images = match operation {
        Operation::ConvolutionForward(operation) => [operation.x, operation.y],
        Operation::ConvolutionBackwardData(operation) => [operation.dy, operation.dx],
        Operation::ConvolutionBackwardFilter(operation) => [operation.x, operation.dy],
        _ => return None,
    };
    let images = images.map(|uid| graph.tensor(uid));
    let mut found = None;
    let mut has_one = false;
    for image in images.into_iter().flatten() {
        let spatial = || image.dims.iter().zip(&image.strides).skip(2).filter(|(dim, _)| **dim > 1);
        has_one |= spatial().next().is_none();
        let (Some(2..), Some(channel)) = (image.dims.get(1), image.strides.get(1)) else { continue };
        let Some(pixel) = spatial().map(|(_, stride)| *stride).min() else { continue };
        let last = *channel < pixel;
        if found.replace(last).is_some_and(|other| other != last) {
            return None;
        }
    }
    found.or(has_one.then_some(true))
}

fn batchnorm_rank(graph: &Graph, operation: &Operation) -> Option<usize> {
    let x = match operation {
        Operation::BatchnormInference(operation) => operation.x,
        Operation::BatchnormInferenceVariance(operation) => operation.x,
        Operation::Batchnorm(operation) => operation.x,
        Operation::BatchnormBackward(operation) => operation.x,
        _ => return None,
    };
    graph.tensor(x).map(|tensor| tensor.dims.len())
}

/// Adds dimensions so that there are at least two spatial ones.
fn image(mut shape: Shape) -> Shape {
    if let (&[_, channels], &[_, stride]) = (shape.dims.as_slice(), shape.strides.as_slice()) {
        let pixel = channels * stride;
        shape.dims.extend([1, 1]);
        shape.strides.extend([pixel, pixel]);
    } else if let (&[_, _, width], &[_, _, stride]) = (shape.dims.as_slice(), shape.strides.as_slice()) {
        shape.dims.insert(2, 1);
        shape.strides.insert(2, width * stride);
    }
    shape
}

/// Merges into [rows, elements, 1, 1]; either size may be 1.
fn collapse(shape: Shape, dims: &[i64], leading: usize) -> Result<Shape, Refusal> {
    let part = |from: usize, to: usize| -> Result<(i64, i64), Refusal> {
        let own = shape.dims.get(from..to).unwrap_or_default();
        let strides = shape.strides.get(from..to).unwrap_or_default();
        if own.iter().all(|dim| *dim == 1) {
            return Ok((1, 1));
        }
        let refuse = || {
            format!(
                "dims {:?} with strides {:?}, expected dims {dims:?} or ones for the first {leading} and for the others, each mergeable into one dimension",
                shape.dims, shape.strides
            )
        };
        if Some(own) != dims.get(from..to) {
            return Err(refuse());
        }
        let mut long: Vec<(i64, i64)> =
            own.iter().copied().zip(strides.iter().copied()).filter(|(dim, _)| *dim > 1).collect();
        let Some((mut count, stride)) = long.pop() else { return Ok((1, 1)) };
        while let Some((dim, step)) = long.pop() {
            if step != stride * count {
                return Err(refuse());
            }
            count *= dim;
        }
        Ok((count, stride))
    };
    let (rows, row_stride) = part(0, leading)?;
    let (elements, stride) = part(leading, dims.len())?;
    let row_stride = if rows == 1 { elements * stride } else { row_stride };
    let behind = elements * stride;
    Ok(Shape { dims: vec![rows, elements, 1, 1], strides: vec![row_stride, stride, behind, behind] })
}
