/* The allocator managed-static in HIP: a module with one __managed__ array of BYTES bytes. The compiler makes two symbols
   of it: firsttouch_static.managed with the bytes, and firsttouch_static, a pointer. When the runtime loads the module,
   it allocates managed memory, copies the bytes there, and sets the pointer. hipModuleGetGlobal returns the address and
   size of the managed memory (HIP: DynCO::initDynManagedVars, getManagedVarPointer). */
__attribute__((managed)) unsigned char firsttouch_static[BYTES];
