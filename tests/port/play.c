/* Loads the library that CUDA_INJECTION64_PATH names as the driver does in cuInit, and plays its first argument through
   the stand-in for the Sanitizer API. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char** arguments) {
    void* const standin = dlopen(getenv("STANDIN"), RTLD_NOW);
    void* const library = dlopen(getenv("CUDA_INJECTION64_PATH"), RTLD_NOW);
    if (count < 2 || standin == NULL || library == NULL) return printf("%s\n", dlerror()), 99;
    int (*initialise)(void) = (int (*)(void))dlsym(library, "InitializeInjection");
    void (*play)(const char*) = (void (*)(const char*))dlsym(standin, "standin_play");
    if (initialise() != 1) return 98;
    play(arguments[1]);
    return 0;
}
