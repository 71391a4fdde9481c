# SPDX-License-Identifier: Apache-2.0
"""A thread without the GIL that ends this process soon after its parent's death, so that the device is free again."""

from posix.unistd cimport getppid

from ge_core_pyx.acl cimport aclrtContext, api
from ge_core_pyx.device cimport Context

import os

cdef extern from *:
    """
    #include <errno.h>
    #include <poll.h>
    #include <pthread.h>
    #include <semaphore.h>
    #include <signal.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>

    #define GE_CORE_CONTEXTS 64
    #define GE_CORE_POLL_MS 200 /* how often the parent is looked at where the kernel has no pidfd */
    #define GE_CORE_DRAIN_MS 500

    static struct {
      pthread_mutex_t lock;
      void *contexts[GE_CORE_CONTEXTS];
      void (*drain)(void *context, int timeout_ms);
      char *file;
      pid_t parent;
      sem_t drained;
    } ge_core_watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

    static void *ge_core_drain(void *unused) {
      (void)unused;
      pthread_mutex_lock(&ge_core_watch.lock); /* no context goes meanwhile; the process ends with it held */
      for (int i = 0; i < GE_CORE_CONTEXTS; i++) {
        if (ge_core_watch.contexts[i] != NULL) ge_core_watch.drain(ge_core_watch.contexts[i], GE_CORE_DRAIN_MS);
      }
      sem_post(&ge_core_watch.drained);
      return NULL;
    }

    static void *ge_core_watch_parent(void *unused) {
      struct pollfd parent = {.fd = (int)syscall(SYS_pidfd_open, ge_core_watch.parent, 0), .events = POLLIN};
      struct timespec end;
      pthread_t drain;
      (void)unused;
      while (getppid() == ge_core_watch.parent && poll(&parent, 1, GE_CORE_POLL_MS) != 1) {
      }
      if (ge_core_watch.file != NULL) unlink(ge_core_watch.file);
      /* The device may end its work, awaited on a thread of its own because a driver can hang. */
      clock_gettime(CLOCK_REALTIME, &end);
      end.tv_nsec += GE_CORE_DRAIN_MS * 1000000L;
      end.tv_sec += end.tv_nsec / 1000000000L;
      end.tv_nsec %= 1000000000L;
      if (pthread_create(&drain, NULL, ge_core_drain, NULL) == 0) {
        while (sem_timedwait(&ge_core_watch.drained, &end) != 0 && errno == EINTR) {
        }
      }
      _exit(1);
    }

    static int ge_core_watch_start(const char *file, pid_t parent, void (*drain)(void *, int)) {
      pthread_t thread;
      sigset_t all, before;
      int rc;
      sem_init(&ge_core_watch.drained, 0, 0);
      ge_core_watch.drain = drain;
      ge_core_watch.parent = parent;
      ge_core_watch.file = file == NULL ? NULL : strdup(file);
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of others */
      rc = pthread_create(&thread, NULL, ge_core_watch_parent, NULL);
      pthread_sigmask(SIG_SETMASK, &before, NULL);
      if (rc == 0) pthread_detach(thread);
      return rc;
    }

    /* Puts `after` where `before` is; NULL stands for a free place. */
    static int ge_core_watch_replace(void *before, void *after) {
      int found = 0;
      pthread_mutex_lock(&ge_core_watch.lock);
      for (int i = 0; i < GE_CORE_CONTEXTS && !found; i++) {
        found = ge_core_watch.contexts[i] == before;
        if (found) ge_core_watch.contexts[i] = after;
      }
      pthread_mutex_unlock(&ge_core_watch.lock);
      return found;
    }
    """
    int ge_core_watch_start(const char* file, int parent, void (*drain)(void*, int) noexcept nogil)
    int ge_core_watch_replace(void* before, void* after) nogil

cdef bint _started = False


cdef void _drain(void* context, int timeout_ms) noexcept nogil:
    if api.aclrtSetCurrentContext(<aclrtContext>context) == 0:
        api.aclrtSynchronizeDeviceWithTimeout(timeout_ms)


def start(file=None) -> bool:
    """Watch the parent from now on. Once it is gone: remove `file`, let guarded devices end their work, exit.

    Work on the devices gets 500 ms. Nothing of Python runs, whoever holds the GIL. Again: nothing happens.

    Parameters
    ----------
    file : path-like, optional

    Returns
    -------
    bool
        Whether the thread runs.
    """
    global _started
    if not _started:
        path = None if file is None else os.fsencode(file)
        _started = ge_core_watch_start(<const char*>path if path is not None else NULL, getppid(), _drain) == 0
    return _started


def guard(Context context not None) -> None:
    """Give the work on a context's device its time before the process ends; `release` it before it is closed."""
    with nogil:
        ge_core_watch_replace(NULL, context.handle)


def release(Context context not None) -> None:
    """The opposite of guard()."""
    if context.handle != NULL:
        with nogil:
            ge_core_watch_replace(context.handle, NULL)
