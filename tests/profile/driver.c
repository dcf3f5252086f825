/* Plays the CUDA driver for the injected library: loads it by CUDA_INJECTION64_PATH within cuInit and works through the
   stand-in for CUPTI.   driver N[/M] END [fork|namespace]: N events, M (or N) copies and kernels each, then an end:
   return, reset (of the context), _exit, abort or kill. fork: a child ends first. namespace: both libraries come by
   dlmopen */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void (*init)(void);
static void (*end_context)(void);
static void (*allocate)(uint32_t id, int memory, uint64_t address, uint64_t bytes);
static void (*release)(int memory, uint64_t address, uint64_t bytes);
static void (*copy)(uint8_t direction, uint64_t bytes);
static void (*copy_between)(uint32_t source, uint32_t target, uint64_t bytes);
static void (*fill)(uint64_t bytes);
static void (*kernel)(const char* name, int is_complete);
static void (*move)(int counter, uint64_t address, uint64_t value, uint32_t flags);

static void* found(void* library, const char* name) {
    void* address = dlsym(library, name);
    if (address == NULL) printf("%s\n", dlerror()), exit(99);
    return address;
}

/* As the driver does it in cuInit. */
static void cu_init(Lmid_t space) {
    void* cupti = dlmopen(space, getenv("STANDIN"), RTLD_NOW);
    if (cupti == NULL || dlinfo(cupti, RTLD_DI_LMID, &space) != 0) printf("%s\n", dlerror()), exit(99);
    init = found(cupti, "standin_init");
    end_context = found(cupti, "standin_end_context");
    allocate = found(cupti, "standin_allocate");
    release = found(cupti, "standin_free");
    copy = found(cupti, "standin_copy");
    copy_between = found(cupti, "standin_copy_between");
    fill = found(cupti, "standin_fill");
    kernel = found(cupti, "standin_kernel");
    move = found(cupti, "standin_move");
    const char* path = getenv("CUDA_INJECTION64_PATH");
    void* library = path == NULL ? NULL : dlmopen(space, path, RTLD_NOW);
    if (library != NULL) {
        int (*initialise)(void) = found(library, "InitializeInjection");
        if (initialise() != 1) exit(98);
    }
    init();
}

__attribute__((noinline)) void allocate_grid(void) {
    allocate(243, 3, 0x200000, 4 << 20);
    __asm__ volatile("");
}
__attribute__((noinline)) void allocate_managed(void) {
    allocate(371, 5, 0x800000, 8 << 20);
    __asm__ volatile("");
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

int main(int count, char** arguments) {
    const int n = atoi(arguments[1]);
    const char* others = strchr(arguments[1], '/');
    const int m = others == NULL ? n : atoi(others + 1);
    const char* end = arguments[2];
    printf("%.6f\n", now());
    const char* how = count > 3 ? arguments[3] : "";
    cu_init(strcmp(how, "namespace") == 0 ? LM_ID_NEWLM : LM_ID_BASE);
    if (strcmp(how, "fork") == 0) {
        const pid_t child = fork();
        if (child == 0) exit(0);
        waitpid(child, NULL, 0);
    }
    allocate_grid();
    allocate_managed();
    for (int i = 0; i < n; ++i) {
        if (i < m) copy(i % 2 == 0 ? 1 : 2, 1000 + i);
        if (i < m) kernel(i % 2 == 0 ? "even" : "odd", 1);
        move(1, 0x800000 + 4096ull * (i % 2048), 4096, 2);
    }
    copy_between(0, 1, 77);
    fill(88);
    kernel("unfinished", 0);
    move(3, 0x801000, (uint64_t)(uintptr_t)&allocate_grid, 2);
    release(3, 0x200000, 4 << 20);
    printf("%.6f\n", now());
    fflush(stdout);
    if (strcmp(end, "return") == 0) return 0;
    if (strcmp(end, "reset") == 0) return end_context(), 0;
    usleep(1200000); /* the rest is lost if it is younger than a second */
    if (strcmp(end, "_exit") == 0) _exit(0);
    if (strcmp(end, "abort") == 0) abort();
    raise(SIGKILL);
}
