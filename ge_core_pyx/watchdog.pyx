"""A thread without the GIL that ends this process soon after its parent's death."""

cimport cython
from libc.stdlib cimport free
from posix.unistd cimport getppid

from ge_core_pyx cimport acl
from ge_core_pyx.acl cimport aclrtContext, api
from ge_core_pyx.device cimport Context

import os

cdef extern from *:
    """
    #define _GNU_SOURCE
    #include <errno.h>
    #include <poll.h>
    #include <pthread.h>
    #include <semaphore.h>
    #include <signal.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/syscall.h>
    #include <time.h>
    #include <unistd.h>

    #define GE_CORE_CONTEXTS 64
    #define GE_CORE_POLL_MS 200    /* how often the parent is looked at where the kernel has no pidfd */

    static struct {
      pthread_mutex_t lock;
      void *contexts[GE_CORE_CONTEXTS];
      void (*drain)(void *context, int timeout_ms);
      char *file;
      pid_t parent;
      int drain_ms;
      sem_t drained;
    } ge_core_watch = {.lock = PTHREAD_MUTEX_INITIALIZER};

    static void *ge_core_drain(void *unused) {
      (void)unused;
      pthread_mutex_lock(&ge_core_watch.lock);    /* no context dies meanwhile; the process does not outlive this */
      for (int i = 0; i < GE_CORE_CONTEXTS; i++) {
        if (ge_core_watch.contexts[i] != NULL) ge_core_watch.drain(ge_core_watch.contexts[i], ge_core_watch.drain_ms);
      }
      sem_post(&ge_core_watch.drained);
      return NULL;
    }

    static void *ge_core_watch_parent(void *unused) {
      (void)unused;
      struct pollfd parent = {.fd = (int)syscall(SYS_pidfd_open, ge_core_watch.parent, 0), .events = POLLIN};
      while (getppid() == ge_core_watch.parent) {
        if (poll(&parent, 1, GE_CORE_POLL_MS) == 1) break;
      }
      /* The device gets a moment to end its work, on a thread that may hang in the driver; then the process ends. */
      struct timespec end;
      pthread_t drain;
      clock_gettime(CLOCK_REALTIME, &end);
      end.tv_nsec += (long)(ge_core_watch.drain_ms % 1000) * 1000000;
      end.tv_sec += ge_core_watch.drain_ms / 1000 + end.tv_nsec / 1000000000;
      end.tv_nsec %= 1000000000;
      if (pthread_create(&drain, NULL, ge_core_drain, NULL) == 0) {
        while (sem_timedwait(&ge_core_watch.drained, &end) != 0 && errno == EINTR) {}
      }
      if (ge_core_watch.file != NULL) unlink(ge_core_watch.file);
      kill(getpid(), SIGKILL);    /* not _exit: the driver closes even what a thread is in the middle of */
      return NULL;
    }

    static int ge_core_watch_start(const char *file, pid_t parent, int drain_ms, void (*drain)(void *, int)) {
      pthread_t thread;
      sigset_t all, before;
      int rc;
      sem_init(&ge_core_watch.drained, 0, 0);
      ge_core_watch.drain = drain;
      ge_core_watch.drain_ms = drain_ms;
      ge_core_watch.parent = parent;
      ge_core_watch.file = file == NULL ? NULL : strdup(file);
      sigfillset(&all);
      pthread_sigmask(SIG_SETMASK, &all, &before);    /* signals are for the threads of others */
      rc = pthread_create(&thread, NULL, ge_core_watch_parent, NULL);
      pthread_sigmask(SIG_SETMASK, &before, NULL);
      if (rc == 0) pthread_detach(thread);
      return rc;
    }

    static int ge_core_watch_context(void *before, void *after) {
      int found = 0;
      pthread_mutex_lock(&ge_core_watch.lock);
      for (int i = 0; i < GE_CORE_CONTEXTS && !found; i++) {
        if (ge_core_watch.contexts[i] == before) {
          ge_core_watch.contexts[i] = after;
          found = 1;
        }
      }
      pthread_mutex_unlock(&ge_core_watch.lock);
      return found;
    }
    """
    int ge_core_watch_start(const char* file, int parent, int drain_ms, void (*drain)(void*, int) noexcept nogil) nogil
    int ge_core_watch_context(void* before, void* after) nogil
