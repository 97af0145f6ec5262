//! MPI functions that are used, about a dozen, with their error codes. A code reports the loss of a rank, and the
//! safe interface of the `mpi` crate throws it away.

#![allow(unsafe_code)]

use std::ffi::{c_char, c_int};
use std::marker::PhantomData;
use std::ptr::null_mut;

use mpi::ffi;

/// MPI, begun on this thread and used by no other (`MPI_THREAD_FUNNELED`).
pub(super) struct Universe(PhantomData<*const ()>);

/// The most bytes of one message: counts are 32-bit numbers.
const PIECE: usize = 1 << 30;

/// The two kinds of messages.
#[derive(Clone, Copy)]
pub(super) enum Tag {
    Head = 1,
    Body = 2,
}

impl Universe {
    /// Joins the other processes.
    pub fn begin() -> Result<Universe, String> {
        // SAFETY: null arguments are allowed, and no thread has begun before: there is one pump in a process.
        unsafe {
            let mut provided = 0;
            let wanted = ffi::RSMPI_THREAD_FUNNELED;
            check(ffi::MPI_Init_thread(null_mut(), null_mut(), wanted, &mut provided))?;
            if provided < wanted {
                return Err(
                    "it allows one thread only; it was built without support for threads".into()
                );
            }
            check(ffi::MPI_Comm_set_errhandler(ffi::RSMPI_COMM_WORLD, ffi::RSMPI_ERRORS_RETURN))?;
        }
        Ok(Universe(PhantomData))
    }

    /// Returns the number of this process, and the number of processes.
    pub fn place(&self) -> Result<(u32, u32), String> {
        let (mut rank, mut size) = (0, 0);
        // SAFETY: MPI has begun; both places are there.
        unsafe {
            check(ffi::MPI_Comm_rank(ffi::RSMPI_COMM_WORLD, &mut rank))?;
            check(ffi::MPI_Comm_size(ffi::RSMPI_COMM_WORLD, &mut size))?;
        }
        Ok((rank.unsigned_abs(), size.unsigned_abs()))
    }

    /// Begins to send.
    pub fn send(&self, to: u32, tag: Tag, buffer: Vec<u8>) -> Result<MpiTransfer<'_>, String> {
        self.transfer(buffer, |start, length, request| {
            // SAFETY: the piece lies in a buffer that is neither moved nor freed before the request is over.
            unsafe {
                let (byte, world) = (ffi::RSMPI_UINT8_T, ffi::RSMPI_COMM_WORLD);
                ffi::MPI_Isend(
                    start.cast(),
                    length,
                    byte,
                    to as c_int,
                    tag as c_int,
                    world,
                    request,
                )
            }
        })
    }

    /// Begins to receive `length` bytes.
    pub fn receive(&self, from: u32, tag: Tag, length: usize) -> Result<MpiTransfer<'_>, String> {
        self.transfer(vec![0; length], |start, length, request| {
            // SAFETY: as in `send`; no code reads the buffer before the request is over.
            unsafe {
                let (byte, world) = (ffi::RSMPI_UINT8_T, ffi::RSMPI_COMM_WORLD);
                ffi::MPI_Irecv(
                    start.cast(),
                    length,
                    byte,
                    from as c_int,
                    tag as c_int,
                    world,
                    request,
                )
            }
        })
    }

    fn transfer(
        &self,
        mut buffer: Vec<u8>,
        post: impl Fn(*mut u8, c_int, *mut ffi::MPI_Request) -> c_int,
    ) -> Result<MpiTransfer<'_>, String> {
        let mut requests = Vec::new();
        for piece in buffer.chunks_mut(PIECE) {
            // SAFETY: a constant of the library.
            let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
            let posted = check(post(piece.as_mut_ptr(), piece.len() as c_int, &mut request));
            if let Err(why) = posted {
                // A leak is better than a buffer that MPI may still read.
                std::mem::forget(buffer);
                return Err(why);
            }
            requests.push(request);
        }
        Ok(MpiTransfer { buffer, requests, _universe: self })
    }

    /// Ends MPI in the regular way. After a rank has died, this may wait forever.
    pub fn finalize(self) {
        // SAFETY: MPI has begun, and every transfer is over: they borrow this.
        let _ = unsafe { ffi::MPI_Finalize() };
    }

    /// Ends all processes.
    pub fn abort(&self, code: i32) {
        // SAFETY: MPI has begun.
        let _ = unsafe { ffi::MPI_Abort(ffi::RSMPI_COMM_WORLD, code) };
    }
}

/// Bytes in transit.
pub(super) struct MpiTransfer<'a> {
    buffer: Vec<u8>,
    /// Pieces that are not there yet.
    requests: Vec<ffi::MPI_Request>,
    _universe: &'a Universe,
}

impl MpiTransfer<'_> {
    /// Returns true if all of it is there; lets MPI make progress.
    ///
    /// # Errors
    /// Returns an error if the other side is lost.
    pub fn is_over(&mut self) -> Result<bool, String> {
        while let Some(request) = self.requests.first_mut() {
            let mut over = 0;
            // SAFETY: the request is live, and belongs to this transfer.
            check(unsafe { ffi::MPI_Test(request, &mut over, ffi::RSMPI_STATUS_IGNORE) })?;
            if over == 0 {
                return Ok(false);
            }
            self.requests.remove(0);
        }
        Ok(true)
    }

    /// Returns its number of bytes.
    pub fn len(&self) -> usize {
        self.buffer.len()
    }

    /// Returns the bytes of a transfer that is over.
    pub fn into_bytes(mut self) -> Vec<u8> {
        debug_assert!(self.requests.is_empty(), "it is over");
        std::mem::take(&mut self.buffer)
    }
}

impl Drop for MpiTransfer<'_> {
    fn drop(&mut self) {
        if !self.requests.is_empty() {
            // MPI may still use the buffer: a leak is better than memory that is used again.
            std::mem::forget(std::mem::take(&mut self.buffer));
        }
    }
}

/// Ends this process at once, without what MPI does when a process ends.
pub(super) fn leave(code: u8) -> ! {
    // SAFETY: the function has no preconditions.
    unsafe { libc::_exit(c_int::from(code)) }
}

fn check(code: c_int) -> Result<(), String> {
    if code == ffi::MPI_SUCCESS as c_int {
        return Ok(());
    }
    let mut text = vec![0_u8; ffi::MPI_MAX_ERROR_STRING as usize];
    let mut length = 0;
    // SAFETY: the text has the room that MPI asks for.
    unsafe { ffi::MPI_Error_string(code, text.as_mut_ptr().cast::<c_char>(), &mut length) };
    text.truncate(length.unsigned_abs() as usize);
    Err(String::from_utf8_lossy(&text).into_owned())
}
