/* SPDX-License-Identifier: MIT */

/* The second half of standin_cuda.c: streams, events, captured graphs, kernels. */

/* ---- Streams ---- */

/* The stream that a handle stands for, with the lock held: null for a default stream, and in `known` whether there is such a stream. */
static stream* find_stream(void* handle, int* known)
{
    *known = 1;
    if ((uintptr_t)handle <= 2) {
        return NULL;
    }
    for (stream* s = streams; s != NULL; s = s->next) {
        if (s == handle) {
            return s;
        }
    }
    *known = 0;
    return NULL;
}

CUDA(cuStreamCreate, void** made, unsigned flags)
{
    pthread_mutex_lock(&lock);
    stream* s = calloc(1, sizeof *s);
    if (current() == NULL || s == NULL) {
        free(s);
        return answer(INVALID_CONTEXT);
    }
    /* The default streams have the numbers of their devices. */
    static uint64_t last = DEVICES;
    *s = (stream){.next = streams, .of = current(), .flags = flags, .id = ++last};
    streams = s;
    *made = s;
    return answer(SUCCESS);
}

CUDA(cuStreamDestroy_v2, void* handle)
{
    pthread_mutex_lock(&lock);
    stream** at = &streams;
    while (*at != NULL && *at != handle) {
        at = &(*at)->next;
    }
    stream* ended = *at;
    if (ended == NULL) {
        return answer(INVALID_HANDLE);
    }
    *at = ended->next;
    free(ended);
    return answer(SUCCESS);
}

CUDA(cuStreamGetCtx, void* handle, void** context)
{
    int known;
    pthread_mutex_lock(&lock);
    const stream* s = find_stream(handle, &known);
    *context = s != NULL ? s->of : current();
    return answer(known ? SUCCESS : INVALID_HANDLE);
}

CUDA(cuStreamGetId, void* handle, uint64_t* id)
{
    int known;
    pthread_mutex_lock(&lock);
    const stream* s = find_stream(handle, &known);
    if (s == NULL && current() == NULL) {
        return answer(INVALID_CONTEXT);
    }
    *id = s != NULL ? s->id : (uint64_t)(current() - devices);
    return answer(known ? SUCCESS : INVALID_HANDLE);
}

CUDA(cuStreamSynchronize, void* handle)
{
    int known;
    pthread_mutex_lock(&lock);
    stream* s = find_stream(handle, &known);
    if (s != NULL && s->captured != NULL) {
        s->is_invalid = 1;
        return answer(CAPTURE_UNSUPPORTED);
    }
    return answer(known ? SUCCESS : INVALID_HANDLE);
}

/* The default stream waits for streams that are not of the other kind, which cannot be while one of them is captured. */
static int is_implicit(void)
{
    for (const stream* s = streams; s != NULL; s = s->next) {
        if (s->captured != NULL && s->flags == 0 && s->of == current()) {
            return 1;
        }
    }
    return 0;
}

CUDA(cuStreamIsCapturing, void* handle, int* status)
{
    int known;
    pthread_mutex_lock(&lock);
    const stream* s = find_stream(handle, &known);
    if (s == NULL && known && handle == NULL && is_implicit()) {
        return answer(CAPTURE_IMPLICIT);
    }
    *status = s == NULL || s->captured == NULL ? 0 : s->is_invalid ? 2 : 1;
    return answer(known ? SUCCESS : INVALID_HANDLE);
}

/* ---- Events: all work is done when it is queued, so they have happened ---- */

CUDA(cuEventCreate, void** event, unsigned flags)
{
    (void)flags;
    *event = malloc(1);
    return current() != NULL ? SUCCESS : INVALID_CONTEXT;
}

CUDA(cuEventDestroy_v2, void* event)
{
    free(event);
    return SUCCESS;
}

CUDA(cuEventRecord, void* event, void* handle)
{
    int known;
    pthread_mutex_lock(&lock);
    const stream* s = find_stream(handle, &known);
    return answer(event == NULL || !known || (s != NULL && s->of != current()) ? INVALID_HANDLE : SUCCESS);
}

CUDA(cuEventQuery, void* event)
{
    const int result = begin();
    return answer(event == NULL ? INVALID_HANDLE : result);
}

CUDA(cuEventSynchronize, void* event)
{
    const int result = begin();
    return answer(event == NULL ? INVALID_HANDLE : result);
}

/* Times of the stand-in mean nothing. */
CUDA(cuEventElapsedTime, float* milliseconds, void* first, void* last)
{
    *milliseconds = 1.0f;
    return first != NULL && last != NULL ? SUCCESS : INVALID_HANDLE;
}

CUDA(cuStreamWaitEvent, void* handle, void* event, unsigned flags)
{
    int known;
    pthread_mutex_lock(&lock);
    find_stream(handle, &known);
    return answer(event == NULL || !known || flags != 0 ? INVALID_HANDLE : SUCCESS);
}

/* ---- Work, at once or captured ---- */

/* With the lock held: kernels of several threads take turns. */
static void run(const device* of, standin_work work, void* data)
{
    for (int i = 0; i < device_count; i++) {
        if (reaches_device(of, i)) {
            open_memory(&devices[i], 1);
        }
    }
    work(data);
    for (int i = 0; i < device_count; i++) {
        open_memory(&devices[i], 0);
    }
}

int standin_cuda_queue(void* handle, standin_work work, const void* data, size_t size)
{
    int known;
    pthread_mutex_lock(&lock);
    stream* s = find_stream(handle, &known);
    if (current() == NULL || !known || (s != NULL && s->of != current())) {
        return answer(current() == NULL ? INVALID_CONTEXT : INVALID_HANDLE);
    }
    if (handle == NULL && is_implicit()) {
        return answer(CAPTURE_IMPLICIT);
    }
    node* n = malloc(sizeof *n);
    void* own = malloc(size);
    if (n == NULL || own == NULL) {
        free(n);
        free(own);
        return answer(OUT_OF_MEMORY);
    }
    memcpy(own, data, size);
    *n = (node){NULL, current(), work, own};
    if (s != NULL && s->captured != NULL) {
        graph* g = s->captured;
        *(g->last != NULL ? &g->last->next : &g->first) = n;
        g->last = n;
        g->count++;
        return answer(SUCCESS);
    }
    run(n->of, work, own);
    free(own);
    free(n);
    return answer(SUCCESS);
}

CUDA(cuStreamBeginCapture_v2, void* handle, int mode)
{
    int known;
    pthread_mutex_lock(&lock);
    stream* s = find_stream(handle, &known);
    if (s == NULL || s->captured != NULL || mode < GLOBAL || mode > RELAXED) {
        return answer(s == NULL ? CAPTURE_UNSUPPORTED : INVALID_VALUE);
    }
    s->captured = calloc(1, sizeof(graph));
    s->owner = pthread_self();
    s->mode = mode;
    s->is_invalid = 0;
    return answer(s->captured != NULL ? SUCCESS : OUT_OF_MEMORY);
}

CUDA(cuGraphDestroy, void* ended)
{
    graph* g = ended;
    if (g->more_users > 0) {
        g->more_users--;
        return SUCCESS;
    }
    for (node* n = g->first; n != NULL;) {
        node* next = n->next;
        free(n->data);
        free(n);
        n = next;
    }
    free(g);
    return SUCCESS;
}

CUDA(cuStreamEndCapture, void* handle, void** made)
{
    int known;
    pthread_mutex_lock(&lock);
    stream* s = find_stream(handle, &known);
    *made = NULL;
    if (s == NULL || s->captured == NULL) {
        return answer(INVALID_VALUE);
    }
    if (s->mode != RELAXED && !pthread_equal(s->owner, pthread_self())) {
        return answer(CAPTURE_WRONG_THREAD);
    }
    graph* g = s->captured;
    s->captured = NULL;
    if (s->is_invalid) {
        cuGraphDestroy(g);
        return answer(CAPTURE_INVALIDATED);
    }
    *made = g;
    return answer(SUCCESS);
}

CUDA(cuGraphGetNodes, void* of, void** nodes, size_t* count)
{
    const graph* g = of;
    size_t at = 0;
    for (node* n = g->first; n != NULL && nodes != NULL && at < *count; n = n->next) {
        nodes[at++] = n;
    }
    *count = nodes != NULL ? at : g->count;
    return SUCCESS;
}

CUDA(cuGraphNodeGetType, void* of, int* kind)
{
    (void)of;
    *kind = 0;
    return SUCCESS;
}

/* What is started is the graph itself, which ends with the last of both. */
CUDA(cuGraphInstantiateWithFlags, void** started, void* of, uint64_t flags)
{
    *started = of;
    ((graph*)of)->more_users += flags == 0;
    return flags == 0 ? SUCCESS : INVALID_VALUE;
}

CUDA(cuGraphExecDestroy, void* started) { return cuGraphDestroy(started); }

/* How many graphs were started, for tests. */
static size_t launches;

size_t standin_cuda_graph_launches(void) { return launches; }

CUDA(cuGraphLaunch, void* started, void* handle)
{
    int known;
    pthread_mutex_lock(&lock);
    const stream* s = find_stream(handle, &known);
    if (s == NULL || s->captured != NULL) {
        return answer(INVALID_HANDLE);
    }
    for (const node* n = ((graph*)started)->first; n != NULL; n = n->next) {
        run(n->of, n->work, n->data);
    }
    launches++;
    return answer(SUCCESS);
}

/* ---- Kernels ---- */

/* The bytes of an ELF file, up to the end of its table of sections, which is last. */
static size_t image_size(const char* image)
{
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head);
    return head.e_shoff + (size_t)head.e_shnum * head.e_shentsize;
}

CUDA(cuModuleLoadData, void** made, const void* image)
{
    int result = begin();
    if (result != SUCCESS) {
        return answer(result);
    }
    Elf64_Ehdr head;
    memcpy(&head, image, sizeof head);
    const int file = memfd_create("kernels", MFD_CLOEXEC);
    module* m = calloc(1, sizeof *m);
    if (memcmp(head.e_ident, ELFMAG, SELFMAG) == 0 && head.e_machine == NVIDIA && file >= 0 && m != NULL) {
        const size_t size = image_size(image);
        char path[64];
        /* The machine that it is for in truth was put where the flags are. */
        head.e_machine = (Elf64_Half)head.e_flags;
        head.e_flags = 0;
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
        if (write(file, image, size) == (ssize_t)size && pwrite(file, &head, sizeof head, 0) == (ssize_t)sizeof head) {
            m->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
            m->of = current();
        }
    }
    if (m == NULL || m->library == NULL) {
        if (file >= 0) {
            close(file);
        }
        free(m);
        return answer(INVALID_IMAGE);
    }
    /* Open as long as the module: the loader would take a file of the same name for the same library. */
    m->file = file;
    *made = m;
    return answer(SUCCESS);
}

CUDA(cuModuleUnload, void* ended)
{
    pthread_mutex_lock(&lock);
    for (function** at = &functions; *at != NULL;) {
        function* f = *at;
        if (f->module == ended) {
            *at = f->next;
            free(f);
        } else {
            at = &f->next;
        }
    }
    dlclose(((module*)ended)->library);
    close(((module*)ended)->file);
    free(ended);
    return answer(SUCCESS);
}

static void yield_to_others(void);

CUDA(cuModuleGetFunction, void** made, void* of, const char* name)
{
    pthread_mutex_lock(&lock);
    module* m = of;
    function* f = calloc(1, sizeof *f);
    char text[200];
    snprintf(text, sizeof text, "%s_run", name);
    void* run_at = dlsym(m->library, text);
    snprintf(text, sizeof text, "%s_count", name);
    const int* count = dlsym(m->library, text);
    void* place = dlsym(m->library, "standin_place");
    void* barrier = dlsym(m->library, "standin_barrier");
    void (*yields)(void) = yield_to_others;
    if (f == NULL || run_at == NULL || count == NULL || place == NULL || barrier == NULL || *count > PARAMETERS) {
        free(f);
        return answer(NOT_FOUND);
    }
    memcpy(&f->run, &run_at, sizeof run_at);
    memcpy(&f->place, &place, sizeof place);
    memcpy(barrier, &yields, sizeof yields);
    f->count = *count;
    f->module = m;
    f->next = functions;
    functions = f;
    *made = f;
    return answer(SUCCESS);
}

typedef struct {
    const function* function;
    unsigned grid, threads;
    uint64_t parameters[PARAMETERS];
} launch;

/* The threads of the block that runs: one at a time, under the lock. */
static ucontext_t scheduler, thread_contexts[MOST_THREADS];
static char* stacks;
static unsigned running;
static int is_over[MOST_THREADS];
static void* arguments[PARAMETERS];
static const function* executed;

static void yield_to_others(void) { swapcontext(&thread_contexts[running], &scheduler); }

static void thread_main(void)
{
    executed->run(arguments);
    is_over[running] = 1;
    swapcontext(&thread_contexts[running], &scheduler);
}

static void run_block(const launch* l, unsigned number, int reverse)
{
    for (unsigned t = 0; t < l->threads; t++) {
        is_over[t] = 0;
        getcontext(&thread_contexts[t]);
        thread_contexts[t].uc_stack.ss_sp = stacks + (size_t)t * STACK;
        thread_contexts[t].uc_stack.ss_size = STACK;
        thread_contexts[t].uc_link = &scheduler;
        makecontext(&thread_contexts[t], thread_main, 0);
    }
    /* From one barrier to the next. */
    for (unsigned left = l->threads; left > 0;) {
        left = 0;
        for (unsigned i = 0; i < l->threads; i++) {
            running = reverse ? l->threads - 1 - i : i;
            if (!is_over[running]) {
                l->function->place(number, running);
                swapcontext(&scheduler, &thread_contexts[running]);
                left += !is_over[running];
            }
        }
    }
}

static void run_kernel(void* data)
{
    launch* l = data;
    const int reverse = getenv("STANDIN_CUDA_REVERSE") != NULL;
    if (stacks == NULL) {
        stacks = mmap(NULL, (size_t)STACK * MOST_THREADS, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    }
    for (int i = 0; i < l->function->count; i++) {
        arguments[i] = &l->parameters[i];
    }
    executed = l->function;
    for (unsigned b = 0; b < l->grid; b++) {
        run_block(l, reverse ? l->grid - 1 - b : b, reverse);
    }
}

CUDA(cuLaunchKernel, void* of, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
     unsigned block_z, unsigned shared, void* handle, void** parameters, void** extra)
{
    launch l = {NULL, grid_x, block_x, {0}};
    pthread_mutex_lock(&lock);
    for (const function* f = functions; f != NULL; f = f->next) {
        l.function = f == of && f->module->of == current() ? f : l.function;
    }
    pthread_mutex_unlock(&lock);
    if (l.function == NULL) {
        return INVALID_HANDLE;
    }
    if (grid_x == 0 || grid_y != 1 || grid_z != 1 || block_x == 0 || block_x > MOST_THREADS || block_y != 1 ||
        block_z != 1 || shared != 0 || extra != NULL) {
        return INVALID_VALUE;
    }
    for (int i = 0; i < l.function->count; i++) {
        memcpy(&l.parameters[i], parameters[i], sizeof l.parameters[i]);
    }
    return standin_cuda_queue(handle, run_kernel, &l, sizeof l);
}
