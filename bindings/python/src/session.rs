//! A library, and its handles, which threads use one after the other.

use hipdnn::{Backend, Handle};

use crate::device::{Place, Stream};
use crate::error::Result;
use crate::forks::Lock;

/// A library and its idle handles.
pub struct Session {
    pub backend: Backend,
    idle: Lock<Vec<Idle>>,
}

/// An idle handle.
struct Idle {
    place: Place,
    /// The stream of its last execution; none for planning handles, whose stream is never set: plans refer to
    /// them as long as they live, and streams may end earlier.
    stream: Option<Stream>,
    handle: Handle,
}

/// The number of GPU handles that keep their streams before one gets another.
const MOST_STREAMS: usize = 8;

impl Session {
    /// Runs `f` with an exclusive handle that plans for a device.
    pub fn plan<R>(&self, place: Place, f: impl FnOnce(&Handle) -> hipdnn::Result<R>) -> Result<R> {
        let _entered = place.enter(Stream::default())?;
        // SAFETY: no stream is set.
        Ok(unsafe { self.with(place, None, MOST_STREAMS, f) }?)
    }

    /// Runs `f` with an exclusive handle that executes on a stream, whose device was entered. During capture, a handle
    /// of another stream is reused: engines may allocate for a new one, which would end the capture.
    ///
    /// # Safety
    /// The stream is a default stream or alive.
    pub unsafe fn execute<R>(
        &self,
        place: Place,
        stream: Stream,
        is_captured: bool,
        f: impl FnOnce(&Handle) -> hipdnn::Result<R>,
    ) -> hipdnn::Result<R> {
        // Host handles have no stream.
        let stream = (place != Place::Host).then_some(stream);
        // SAFETY: the stream is a default stream or alive, as this function requires.
        unsafe { self.with(place, stream, if is_captured { 1 } else { MOST_STREAMS }, f) }
    }

    /// # Safety
    /// The stream, if there is one, is a default stream or alive.
    unsafe fn with<R>(
        &self,
        place: Place,
        stream: Option<Stream>,
        most: usize,
        f: impl FnOnce(&Handle) -> hipdnn::Result<R>,
    ) -> hipdnn::Result<R> {
        let (mut before, handle) = match self.take(place, stream, most) {
            Some(idle) => (idle.stream, idle.handle),
            None => {
                let handle = Handle::new(&self.backend)?;
                place.open(&handle)?;
                (None, handle)
            }
        };
        if stream.is_some() && before.is_none() {
            before = Some(Stream::default());
        }
        if let Some(stream) = stream
            && before != Some(stream)
        {
            // SAFETY: the stream is a default stream or alive, as the callers require.
            unsafe { handle.set_stream(stream.raw()) }?;
        }
        let result = f(&handle);
        self.idle.lock().push(Idle { place, stream, handle });
        result
    }

    /// The last used handle with this stream, or one with another stream if there are at least this many.
    fn take(&self, place: Place, stream: Option<Stream>, most: usize) -> Option<Idle> {
        let mut idle = self.idle.lock();
        let at = idle.iter().rposition(|of| of.place == place && of.stream == stream).or_else(|| {
            let mut others =
                idle.iter().enumerate().filter(|(_, of)| of.place == place && of.stream.is_some());
            let first = others.next().map(|(at, _)| at);
            first.filter(|_| stream.is_some() && others.count() + 1 >= most)
        });
        at.map(|at| idle.remove(at))
    }
}

impl Session {
    /// Destroys the idle handles. Plans keep theirs.
    pub fn reset(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        for of in idle {
            // Destroying it may free memory of its device. If that cannot be entered, nothing can be freed there.
            let _entered = of.place.enter(Stream::default());
            drop(of.handle);
        }
    }

    /// The session of an open library.
    pub fn new(backend: Backend) -> Self {
        Self { backend, idle: Lock::default() }
    }

    /// Destroys the idle handles.
    pub fn end_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        drop(idle);
    }
}
