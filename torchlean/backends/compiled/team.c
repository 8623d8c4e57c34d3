/* Threads that share out independent results of a compiled program.

   `each` calls a task over pieces of [0, size), on the calling thread and on the workers that wake up in time. Which
   thread does which piece changes no bit. Workers are started when they are first needed, never by a small program,
   and sleep between programs. There is one set of them in a process: a caller that finds it at work, because another
   thread is inside, does its pieces alone. After a fork the child starts its own. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define MOST 256   /* threads */
#define SPINS 2000 /* looks at what is awaited before a thread sleeps, some tens of microseconds */
#define KEPT (64 << 20) /* bytes of scratch that a worker keeps */

typedef void (*Task)(const void *frame, int64_t start, int64_t stop, char *scratch);
typedef struct Team {
    void (*each)(const struct Team *, Task, const void *, int64_t, int64_t, int64_t, int64_t, char *);
    int threads;
} Team;
typedef struct {
    Task task;
    const void *frame;
    int64_t size, piece, scratch;
    int seats; /* workers that may still join */
    _Atomic int64_t next;
} Job;

static pthread_mutex_t busy = PTHREAD_MUTEX_INITIALIZER; /* held by the caller whose job it is */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of what follows */
static pthread_cond_t wake = PTHREAD_COND_INITIALIZER, done = PTHREAD_COND_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static Job *job;
static int workers;
static _Atomic int active;
static _Atomic unsigned turn; /* counts jobs */

static inline void pause_a_little(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

static void work(Job *given, char *scratch) {
    for (;;) {
        const int64_t start = atomic_fetch_add(&given->next, given->piece);
        if (start >= given->size) return;
        const int64_t left = given->size - start;
        given->task(given->frame, start, start + (left < given->piece ? left : given->piece), scratch);
    }
}

static void *worker(void *since) {
    unsigned seen = (unsigned)(uintptr_t)since;
    char *scratch = NULL;
    int64_t held = 0;
    for (;;) {
        for (int i = 0; i < SPINS && atomic_load_explicit(&turn, memory_order_relaxed) == seen; i++) pause_a_little();
        pthread_mutex_lock(&lock);
        while (atomic_load(&turn) == seen) pthread_cond_wait(&wake, &lock);
        seen = atomic_load(&turn);
        Job *given = job;
        if (given == NULL || given->seats == 0) {
            pthread_mutex_unlock(&lock);
            continue;
        }
        given->seats--;
        atomic_fetch_add(&active, 1);
        pthread_mutex_unlock(&lock);
        if (held < given->scratch) {
            free(scratch);
            held = given->scratch;
            void *made = NULL;
            if (posix_memalign(&made, 64, (size_t)held)) made = NULL;
            if (made == NULL) held = 0;
            scratch = made;
        }
        if (held >= given->scratch) work(given, scratch); /* else the others do it all */
        pthread_mutex_lock(&lock);
        if (atomic_fetch_sub(&active, 1) == 1) pthread_cond_signal(&done);
        pthread_mutex_unlock(&lock);
        if (held > KEPT) {
            free(scratch);
            scratch = NULL;
            held = 0;
        }
    }
    return NULL;
}

static void before_fork(void) {
    pthread_mutex_lock(&busy);
    pthread_mutex_lock(&lock);
}

static void in_parent(void) {
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&busy);
}

static void in_child(void) {
    pthread_mutex_init(&busy, NULL);
    pthread_mutex_init(&lock, NULL);
    pthread_cond_init(&wake, NULL);
    pthread_cond_init(&done, NULL);
    workers = 0;
    job = NULL;
    atomic_store(&active, 0);
}

static void heed_forks(void) { pthread_atfork(before_fork, in_parent, in_child); }

/* Start workers until there are so many, as far as the system lets us; `lock` is held. */
static void start(int wanted) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* signals are for the threads of Python */
    while (workers < wanted) {
        pthread_t made;
        if (pthread_create(&made, NULL, worker, (void *)(uintptr_t)atomic_load(&turn))) break;
        pthread_detach(made);
        workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* `step`: what pieces are made of; `pieces`: for each thread, so that who is held up leaves the rest to others;
   `scratch`: bytes a thread needs beside; `own`: the caller's. */
static void each(const Team *team, Task task, const void *frame, int64_t size, int64_t step, int64_t pieces,
                 int64_t scratch, char *own) {
    const int64_t steps = (size + step - 1) / step;
    const int threads = team->threads < steps ? team->threads : (int)steps;
    if (threads < 2 || pthread_mutex_trylock(&busy)) {
        task(frame, 0, size, own);
        return;
    }
    const int64_t piece = (steps + pieces * threads - 1) / (pieces * threads) * step;
    Job here = {task, frame, size, piece, scratch, threads - 1, 0};
    pthread_mutex_lock(&lock);
    start(threads - 1);
    job = &here;
    atomic_fetch_add(&turn, 1);
    pthread_cond_broadcast(&wake);
    pthread_mutex_unlock(&lock);
    work(&here, own);
    for (int i = 0; i < SPINS && atomic_load(&active); i++) pause_a_little();
    pthread_mutex_lock(&lock);
    job = NULL;
    while (atomic_load(&active)) pthread_cond_wait(&done, &lock);
    pthread_mutex_unlock(&lock);
    pthread_mutex_unlock(&busy);
}

/* The team of so many threads, made once. */
const Team *torchlean_team(int threads) {
    static Team teams[MOST];
    const int many = threads < 1 ? 1 : threads > MOST ? MOST : threads;
    pthread_once(&once, heed_forks);
    teams[many - 1] = (Team){each, many};
    return &teams[many - 1];
}

/* How many workers there are. */
int torchlean_workers(void) {
    pthread_mutex_lock(&lock);
    const int found = workers;
    pthread_mutex_unlock(&lock);
    return found;
}
