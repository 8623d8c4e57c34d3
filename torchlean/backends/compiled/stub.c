/* A Python callable around one generated function: checks its arrays, makes its results, lends it an arena.

   The generated function has the signature of `Run` and knows nothing of Python, so it compiles fast; this file is
   compiled once for a Python and a NumPy. A small arena is kept between calls; a call that finds it lent out, because
   another thread is inside, gets one of its own. A large one is given back: a program of many kernels would hold all. Python's tracemalloc is told of arenas, as NumPy tells it of arrays. */
#define PY_SSIZE_T_CLEAN
#define NPY_NO_DEPRECATED_API NPY_1_7_API_VERSION
#include <Python.h>
#include <structmember.h>
#include <numpy/arrayobject.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

#define SMALL 16384 /* bytes of arena that are taken from the stack */
#define KEPT 1048576 /* bytes of the largest arena that is kept between calls */
#define FEW 64      /* operands and results for which no list is allocated */

typedef void (*Run)(char *const *operands, char *const *results, char *arena, const void *team);

typedef struct {
    PyObject_HEAD
    vectorcallfunc call;
    Run run;
    Py_ssize_t takes, gives;
    Py_ssize_t *bytes;         /* of each operand */
    PyArray_Descr **descrs;    /* of each result */
    int *ranks;
    npy_intp **shapes;
    size_t arena;
    int releases, packs;       /* give up the interpreter's lock while running; return a tuple always */
    const void *team;          /* the threads that share out parts of it, if any do */
    _Atomic(void *) kept;
    PyObject *owner;           /* keeps the library loaded */
} Kernel;

static void *fresh_arena(size_t bytes) {
    void *made = NULL;
    if (posix_memalign(&made, 64, bytes)) return NULL;
    PyTraceMalloc_Track(0, (uintptr_t)made, bytes);
    return made;
}

static void free_arena(void *arena) {
    if (arena == NULL) return;
    PyTraceMalloc_Untrack(0, (uintptr_t)arena);
    free(arena);
}

/* The memory of an operand; a copy, which is put in *held, where it is not row-major, aligned and native. */
static char *memory_of(PyObject *given, PyObject **held, Py_ssize_t position, Py_ssize_t bytes) {
    PyArrayObject *array = (PyArrayObject *)given;
    *held = NULL;
    if (!PyArray_CheckExact(given) || !PyArray_ISCARRAY_RO(array)) {
        array = (PyArrayObject *)PyArray_FromAny(
            given, NULL, 0, 0, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED | NPY_ARRAY_NOTSWAPPED, NULL);
        if (array == NULL) return NULL;
        *held = (PyObject *)array;
    }
    if ((Py_ssize_t)PyArray_NBYTES(array) != bytes) {
        PyErr_Format(PyExc_ValueError, "operand %zd of a compiled kernel has %zd bytes, and it was made for %zd",
                     position, (Py_ssize_t)PyArray_NBYTES(array), bytes);
        return NULL;
    }
    return PyArray_BYTES(array);
}

static PyObject *called(PyObject *self, PyObject *const *args, size_t flags, PyObject *names) {
    Kernel *kernel = (Kernel *)self;
    Py_ssize_t takes = kernel->takes, gives = kernel->gives, count = PyVectorcall_NARGS(flags);
    if (count != takes || (names != NULL && PyTuple_GET_SIZE(names))) {
        PyErr_Format(PyExc_TypeError, "a compiled kernel of %zd operands was given %zd", takes, count);
        return NULL;
    }
    char *few_pointers[FEW];
    PyObject *few_objects[FEW];
    char **pointers = few_pointers;
    PyObject **objects = few_objects; /* copies of operands, then results */
    PyObject *made = NULL;
    char local[SMALL] __attribute__((aligned(64)));
    char *arena = local;
    Py_ssize_t done = 0;
    if (takes + gives > FEW) {
        pointers = malloc((size_t)(takes + gives) * sizeof *pointers);
        objects = malloc((size_t)(takes + gives) * sizeof *objects);
        if (pointers == NULL || objects == NULL) { PyErr_NoMemory(); goto end; }
    }
    for (; done < takes; done++) {
        pointers[done] = memory_of(args[done], &objects[done], done, kernel->bytes[done]);
        if (pointers[done] == NULL) { done++; goto end; }
    }
    for (Py_ssize_t i = 0; i < gives; i++, done++) {
        Py_INCREF(kernel->descrs[i]);
        objects[done] = PyArray_NewFromDescr(&PyArray_Type, kernel->descrs[i], kernel->ranks[i], kernel->shapes[i],
                                             NULL, NULL, 0, NULL);
        if (objects[done] == NULL) goto end;
        pointers[done] = PyArray_BYTES((PyArrayObject *)objects[done]);
    }
    if (kernel->arena > SMALL) {
        arena = atomic_exchange(&kernel->kept, NULL);
        if (arena == NULL) arena = fresh_arena(kernel->arena);
        if (arena == NULL) { PyErr_NoMemory(); goto end; }
    }
    if (kernel->releases) {
        Py_BEGIN_ALLOW_THREADS
        kernel->run(pointers, pointers + takes, arena, kernel->team);
        Py_END_ALLOW_THREADS
    } else {
        kernel->run(pointers, pointers + takes, arena, kernel->team);
    }
    if (arena != local) free_arena(kernel->arena <= KEPT ? atomic_exchange(&kernel->kept, arena) : arena);
    if (gives == 1 && !kernel->packs) {
        made = objects[takes];
        objects[takes] = NULL;
    } else if ((made = PyTuple_New(gives)) != NULL) {
        for (Py_ssize_t i = 0; i < gives; i++) {
            PyTuple_SET_ITEM(made, i, objects[takes + i]);
            objects[takes + i] = NULL;
        }
    }
end:
    if (objects != NULL) {
        for (Py_ssize_t i = 0; i < done; i++) Py_XDECREF(objects[i]);
    }
    if (pointers != few_pointers) free(pointers);
    if (objects != few_objects) free(objects);
    return made;
}

static void kernel_free(PyObject *self) {
    Kernel *kernel = (Kernel *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; i < kernel->gives; i++) {
        if (kernel->descrs != NULL) Py_XDECREF(kernel->descrs[i]);
        if (kernel->shapes != NULL) free(kernel->shapes[i]);
    }
    free(kernel->bytes);
    free(kernel->descrs);
    free(kernel->ranks);
    free(kernel->shapes);
    free_arena(atomic_load(&kernel->kept));
    Py_XDECREF(kernel->owner);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Kernel, call), READONLY, NULL},
    {NULL},
};
static PyType_Slot slots[] = {
    {Py_tp_dealloc, kernel_free},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, members},
    {0, NULL},
};
static PyType_Spec spec = {
    .name = "torchlean.backends.compiled.Kernel",
    .basicsize = sizeof(Kernel),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = slots,
};

/* The type of kernels, made once by whoever loads this library. */
PyObject *torchlean_kernel_type(void) {
    if (PyArray_ImportNumPyAPI() < 0) return NULL;
    return PyType_FromSpec(&spec);
}

/* make(type, address, operand bytes, result dtypes, result shapes, arena bytes, releases, packs, team, owner) */
PyObject *torchlean_kernel(PyObject *arguments) {
    PyTypeObject *type;
    PyObject *bytes, *dtypes, *shapes, *owner;
    unsigned long long address, arena, team;
    int releases, packs;
    if (!PyArg_ParseTuple(arguments, "O!KO!O!O!KppKO", &PyType_Type, &type, &address, &PyTuple_Type, &bytes,
                          &PyTuple_Type, &dtypes, &PyTuple_Type, &shapes, &arena, &releases, &packs, &team,
                          &owner))
        return NULL;
    Kernel *kernel = (Kernel *)type->tp_alloc(type, 0);
    if (kernel == NULL) return NULL;
    kernel->call = called;
    kernel->run = (Run)(uintptr_t)address;
    kernel->takes = PyTuple_GET_SIZE(bytes);
    kernel->gives = PyTuple_GET_SIZE(dtypes);
    kernel->arena = (size_t)arena;
    kernel->releases = releases;
    kernel->packs = packs;
    kernel->team = (const void *)(uintptr_t)team;
    kernel->owner = Py_NewRef(owner);
    kernel->bytes = calloc((size_t)kernel->takes + 1, sizeof *kernel->bytes);
    kernel->descrs = calloc((size_t)kernel->gives + 1, sizeof *kernel->descrs);
    kernel->ranks = calloc((size_t)kernel->gives + 1, sizeof *kernel->ranks);
    kernel->shapes = calloc((size_t)kernel->gives + 1, sizeof *kernel->shapes);
    if (!kernel->bytes || !kernel->descrs || !kernel->ranks || !kernel->shapes) { PyErr_NoMemory(); goto fail; }
    for (Py_ssize_t i = 0; i < kernel->takes; i++) {
        kernel->bytes[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(bytes, i));
    }
    for (Py_ssize_t i = 0; i < kernel->gives; i++) {
        PyObject *shape = PyTuple_GET_ITEM(shapes, i);
        if (!PyArray_DescrConverter(PyTuple_GET_ITEM(dtypes, i), &kernel->descrs[i])) goto fail;
        kernel->ranks[i] = (int)PyTuple_Size(shape);
        kernel->shapes[i] = calloc((size_t)kernel->ranks[i] + 1, sizeof(npy_intp));
        if (kernel->shapes[i] == NULL) { PyErr_NoMemory(); goto fail; }
        for (int axis = 0; axis < kernel->ranks[i]; axis++) {
            kernel->shapes[i][axis] = (npy_intp)PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, axis));
        }
    }
    if (PyErr_Occurred()) goto fail;
    return (PyObject *)kernel;
fail:
    Py_DECREF(kernel);
    return NULL;
}
