/* Separate the inserts of a step from its other events, and order them by key, as routing.py does in Python.

   The Python code is the definition. `take` gives up (returns None, and changes nothing) on a block in which an insert
   has a point or sequence that is not a plain number of 64 bits: Python then continues with the step.

   The keys are watched by a hash of 64 bits. Two keys with the same hash count as one key with two events, so the step
   takes the general path, as with any repeated key: the hash decides the cost of a step and never its result.

   An old image (B) whose new image (U) has the same bytes as its key has no effect, and is left out. It is retained
   until its U arrives, because a source can send all B of a statement before their U.

   A Router belongs to one step. Each call holds the interpreter lock, and calls no Python code.
   Stable ABI of Python 3.11 (PEP 384); without a compiler, nothing of this is needed. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ROUTER_VERSION 1 /* the same number as in routing.py: a router of another version is not used */

/* -- a set of hashes ------------------------------------------------------------------------------------------------ */

typedef struct {
    uint64_t *slots; /* 0: free */
    size_t room, used;
} Set;

static int grow(Set *set)
{
    size_t room = set->room ? set->room * 2 : 1024;
    uint64_t *slots = calloc(room, sizeof *slots);
    if (slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (size_t i = 0; i < set->room; i++) {
        uint64_t one = set->slots[i];
        if (!one)
            continue;
        size_t at = (size_t)one & (room - 1);
        while (slots[at])
            at = (at + 1) & (room - 1);
        slots[at] = one;
    }
    free(set->slots);
    set->slots = slots;
    set->room = room;
    return 0;
}

/* Add a hash: 1 if it is new, 0 if not, -1 with an exception. */
static int add(Set *set, uint64_t hash)
{
    hash += !hash;
    if (set->used * 2 >= set->room && grow(set))
        return -1;
    size_t at = (size_t)hash & (set->room - 1);
    while (set->slots[at]) {
        if (set->slots[at] == hash)
            return 0;
        at = (at + 1) & (set->room - 1);
    }
    set->slots[at] = hash;
    set->used++;
    return 1;
}

static void forget(Set *set)
{
    free(set->slots);
    memset(set, 0, sizeof *set);
}

static uint64_t mixed(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ULL;
    return hash ^ hash >> 29;
}

static uint64_t hash_of(uint64_t hash, const char *p, size_t size)
{
    uint64_t word;
    hash = mixed(hash, size);
    for (; size >= 8; p += 8, size -= 8) {
        memcpy(&word, p, 8);
        hash = mixed(hash, word);
    }
    word = 0;
    memcpy(&word, p, size);
    return mixed(mixed(hash, word), 0);
}

/* -- lines ------------------------------------------------------------------------------------------------------- */

typedef struct {
    PyObject_HEAD
    Py_ssize_t count;
    long *places;          /* the columns of the key, from 1, in its order */
    unsigned char *is_key; /* for each column up to `last`, from 1 */
    long last;
    int leads, in_order;   /* the key has the first columns; and in their order */
    Set keys, filtered;
    long long watched, most;
    int watching, repeated, any;
    int64_t first, second;
    struct {
        char *text;        /* their lines, one after another */
        size_t size, room, count, most, left, slots;
        struct Old *each;
        uint32_t *table;   /* for each slot 0, or the number of one of `each`, from 1 */
        int refused;       /* whether further ones are staged at once */
    } olds;
} Router;

/* An old image whose new image has not arrived; `size` is 0 once it has. */
typedef struct Old {
    int64_t point, number;
    size_t at, size;
} Old;

/* A line without its newline, split at its first three tabs. */
typedef struct {
    const char *begin, *end, *number, *kind, *row; /* `row` is NULL with fewer tabs */
} Line;

static const char *until(const char *p, const char *end, char c)
{
    const char *found = memchr(p, c, (size_t)(end - p));
    return found == NULL ? end : found;
}

static Line split(const char *p, const char *end)
{
    Line line = {p, end, NULL, NULL, NULL};
    const char *tabs[3];
    for (int i = 0; i < 3; i++) {
        while (p < end && *p != '\t')
            p++;
        if (p == end)
            return line;
        tabs[i] = p++;
    }
    line.number = tabs[0] + 1;
    line.kind = tabs[1] + 1;
    line.row = p;
    return line;
}

static int is_kind(const Line *line, char kind)
{
    return line->row - line->kind == 2 && *line->kind == kind;
}

/* Read the number before `end`; 0 if it is not a plain one. */
static int number_of(const char *p, const char *end, int64_t *found)
{
    int negative = p < end && *p == '-';
    uint64_t number = 0;
    p += negative;
    if (p == end || end - p > 19)
        return 0;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return 0;
        number = number * 10 + (uint64_t)(*p - '0');
    }
    if (number > INT64_MAX)
        return 0;
    *found = negative ? -(int64_t)number : (int64_t)number;
    return 1;
}

/* The hash of a line's key; a line with too few columns has an empty key. */
static uint64_t key_of(const Router *router, const Line *line)
{
    const char *p = line->row;
    uint64_t hash = 0;
    for (long column = 1; column <= router->last; column++) {
        const char *stop = until(p, line->end, '\t');
        if (!router->leads && router->is_key[column])
            hash = hash_of(hash, p, (size_t)(stop - p));
        if (column == router->last)
            return router->leads ? hash_of(0, line->row, (size_t)(stop - line->row)) : hash;
        if (stop == line->end)
            break;
        p = stop + 1;
    }
    hash = 0;
    for (Py_ssize_t i = 0; i < (router->leads ? 1 : router->count); i++)
        hash = hash_of(hash, "", 0);
    return hash;
}

static int watch(Router *router, const Line *line)
{
    uint64_t key = key_of(router, line);
    if (is_kind(line, 'x')) {
        int fresh = add(&router->filtered, key);
        if (fresh != 1)
            return fresh;
    }
    int fresh = add(&router->keys, key);
    router->watched++;
    if (!fresh)
        router->repeated = 1;
    return fresh;
}

/* Note the position of an insert. */
static void reach(Router *router, int64_t point, int64_t number)
{
    if (!router->any || point > router->first) {
        router->any = 1;
        router->first = point;
        router->second = number;
    } else if (point == router->first && number > router->second) {
        router->second = number;
    }
}

/* Whether each insert of a block has plain numbers. */
static int is_plain(const char *p, const char *end)
{
    int64_t number;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (stop == NULL)
            return 1;
        Line line = split(p, stop);
        if (line.row != NULL && is_kind(&line, 'I') &&
            (!number_of(line.begin, line.number - 1, &number) || !number_of(line.number, line.kind - 1, &number)))
            return 0;
        p = stop + 1;
    }
    return 1;
}

/* -- old images -------------------------------------------------------------------------------------------------- */

#define MOST_OLD (8u << 20) /* bytes of retained lines, above which all are staged */

static void forget_olds(Router *router)
{
    free(router->olds.text);
    free(router->olds.each);
    free(router->olds.table);
    memset(&router->olds, 0, sizeof router->olds);
}

static uint32_t *slot_of(const Router *router, int64_t point, int64_t number)
{
    size_t at = (size_t)mixed(mixed(0, (uint64_t)point), (uint64_t)number);
    for (;; at++) {
        uint32_t *slot = &router->olds.table[at & (router->olds.slots - 1)];
        if (!*slot)
            return slot;
        const Old *old = &router->olds.each[*slot - 1];
        if (old->point == point && old->number == number)
            return slot;
    }
}

/* Make room for one more image of this size; -1 with an exception. */
static int extend_olds(Router *router, size_t size)
{
    if (size > router->olds.room - router->olds.size) {
        size_t room = (router->olds.size + size) * 2;
        char *text = realloc(router->olds.text, room);
        if (text == NULL)
            return PyErr_NoMemory(), -1;
        router->olds.text = text;
        router->olds.room = room;
    }
    if (router->olds.count == router->olds.most) {
        size_t most = router->olds.most ? router->olds.most * 2 : 512;
        Old *each = realloc(router->olds.each, most * sizeof *each);
        if (each == NULL)
            return PyErr_NoMemory(), -1;
        router->olds.each = each;
        router->olds.most = most;
        uint32_t *table = calloc(most * 2, sizeof *table);
        if (table == NULL)
            return PyErr_NoMemory(), -1;
        free(router->olds.table);
        router->olds.table = table;
        router->olds.slots = most * 2;
        for (size_t i = 0; i < router->olds.count; i++)
            *slot_of(router, each[i].point, each[i].number) = (uint32_t)i + 1;
    }
    return 0;
}

/* Retain an old image: 1 if that was possible, 0 to stage it, -1 with an exception. */
static int retain(Router *router, const Line *line)
{
    Old old = {0, 0, router->olds.size, (size_t)(line->end - line->begin) + 1};
    if (router->olds.refused || !number_of(line->begin, line->number - 1, &old.point) ||
        !number_of(line->number, line->kind - 1, &old.number))
        return 0;
    if (extend_olds(router, old.size))
        return -1;
    uint32_t *slot = slot_of(router, old.point, old.number);
    if (*slot)
        return 0;
    memcpy(router->olds.text + old.at, line->begin, old.size);
    router->olds.size += old.size;
    router->olds.each[router->olds.count++] = old;
    router->olds.left++;
    *slot = (uint32_t)router->olds.count;
    return 1;
}

/* The column of a row; NULL if the row has too few. */
static const char *column_of(const char *p, const char *end, long number, const char **stop)
{
    for (; number > 1; number--) {
        p = until(p, end, '\t');
        if (p == end)
            return NULL;
        p++;
    }
    *stop = until(p, end, '\t');
    return p;
}

static int same_key(const Router *router, const Line *one, const Line *other)
{
    for (Py_ssize_t i = 0; i < router->count; i++) {
        const char *p_end = NULL, *q_end = NULL;
        const char *p = column_of(one->row, one->end, router->places[i], &p_end);
        const char *q = column_of(other->row, other->end, router->places[i], &q_end);
        if (p == NULL || q == NULL || p_end - p != q_end - q || memcmp(p, q, (size_t)(p_end - p)))
            return 0;
    }
    return 1;
}

/* Whether the old image of a new one was retained and has its key: it is then left out. */
static int leave_out(Router *router, const Line *line)
{
    int64_t point, number;
    if (!router->olds.left || !number_of(line->begin, line->number - 1, &point) ||
        !number_of(line->number, line->kind - 1, &number) || number == INT64_MIN)
        return 0;
    uint32_t *slot = slot_of(router, point, number - 1);
    Old *old = *slot ? &router->olds.each[*slot - 1] : NULL;
    if (old == NULL || !old->size)
        return 0;
    const char *begin = router->olds.text + old->at;
    Line known = split(begin, begin + old->size - 1);
    if (!same_key(router, &known, line))
        return 0;
    old->size = 0;
    router->olds.left--;
    return 1;
}

/* The lines of the retained images that have not been left out. */
static PyObject *router_left(PyObject *self, PyObject *none)
{
    Router *router = (Router *)self;
    (void)none;
    char *text = router->olds.text, *to = text;
    for (size_t i = 0; i < router->olds.count; i++) {
        const Old *old = &router->olds.each[i];
        memmove(to, text + old->at, old->size);
        to += old->size;
    }
    PyObject *left = PyBytes_FromStringAndSize(text == NULL ? "" : text, to - text);
    forget_olds(router);
    router->olds.refused = 1;
    return left;
}

static PyObject *router_take(PyObject *self, PyObject *block)
{
    Router *router = (Router *)self;
    char *begin;
    Py_ssize_t size, count = 0, left_out = 0;
    if (PyBytes_AsStringAndSize(block, &begin, &size))
        return NULL;
    const char *p = begin, *end = begin + size;
    if (!is_plain(p, end))
        return Py_NewRef(Py_None);
    char *rest = malloc((size_t)size * 2 + 1);
    if (rest == NULL)
        return PyErr_NoMemory();
    char *inserts = rest + size, *rests = rest, *apart = inserts;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (stop == NULL)
            break;
        Line line = split(p, stop);
        size_t length = (size_t)(stop + 1 - p);
        char kind = line.row != NULL && line.row - line.kind == 2 ? *line.kind : 0;
        int retained = kind == 'B' ? retain(router, &line) : 0;
        if (retained < 0 || (line.row != NULL && kind != 'B' && router->watching && watch(router, &line) < 0)) {
            free(rest);
            return NULL;
        }
        if (kind == 'U')
            left_out += leave_out(router, &line);
        if (kind == 'I') {
            int64_t point = 0, number = 0;
            number_of(line.begin, line.number - 1, &point);
            number_of(line.number, line.kind - 1, &number);
            reach(router, point, number);
            memcpy(apart, p, length);
            apart += length;
            count++;
        } else if (!retained) {
            memcpy(rests, p, length);
            rests += length;
        }
        p = stop + 1;
    }
    memcpy(rests, p, (size_t)(end - p)); /* a line without an end: the server rejects it */
    rests += end - p;
    if (router->repeated || router->watched >= router->most) {
        router->watching = 0;
        forget(&router->keys);
        forget(&router->filtered);
    }
    if (!router->olds.left)
        forget_olds(router);
    else if (router->olds.size > MOST_OLD)
        router->olds.refused = 1;
    PyObject *found = Py_BuildValue("(y#y#nn)", rest, (Py_ssize_t)(rests - rest), inserts,
                                    (Py_ssize_t)(apart - inserts), count, left_out);
    free(rest);
    return found;
}

/* -- order ------------------------------------------------------------------------------------------------------- */

typedef struct {
    const char *row, *end, *begin; /* `begin`: what is written */
    uint64_t head;         /* the first eight bytes of the row, or of the first column of the key */
    const Router *router;
} Row;

static uint64_t head_of(const char *p, const char *end)
{
    unsigned char bytes[8] = {0};
    uint64_t head = 0;
    memcpy(bytes, p, end - p < 8 ? (size_t)(end - p) : 8);
    for (int i = 0; i < 8; i++)
        head = head << 8 | bytes[i];
    return head;
}

static int compared(const char *p, const char *p_end, const char *q, const char *q_end)
{
    size_t one = (size_t)(p_end - p), other = (size_t)(q_end - q);
    int found = memcmp(p, q, one < other ? one : other);
    return found ? found : (one > other) - (one < other);
}

static int by_key(const void *one, const void *other)
{
    const Row *a = one, *b = other;
    const Router *router = a->router;
    if (a->head != b->head)
        return a->head < b->head ? -1 : 1;
    int found = 0;
    if (router->in_order)
        found = compared(a->row, a->end, b->row, b->end);
    for (Py_ssize_t i = 0; !router->in_order && !found && i < router->count; i++) {
        const char *p_end = NULL, *q_end = NULL;
        const char *p = column_of(a->row, a->end, router->places[i], &p_end);
        const char *q = column_of(b->row, b->end, router->places[i], &q_end);
        found = p == NULL || q == NULL ? (p != NULL) - (q != NULL) : compared(p, p_end, q, q_end);
    }
    return found ? found : (a->row > b->row) - (a->row < b->row); /* equal keys stay in their order */
}

static PyObject *router_ordered(PyObject *self, PyObject *arguments)
{
    const Router *router = (const Router *)self;
    PyObject *lines;
    char *begin;
    int whole;
    Py_ssize_t size, count = 0, found = 0;
    if (!PyArg_ParseTuple(arguments, "O!p:ordered", &PyBytes_Type, &lines, &whole) ||
        PyBytes_AsStringAndSize(lines, &begin, &size))
        return NULL;
    const char *end = begin + size;
    for (const char *p = begin; p < end && (p = memchr(p, '\n', (size_t)(end - p))) != NULL; p++)
        count++;
    Row *rows = calloc((size_t)count + 1, sizeof *rows);
    char *text = malloc((size_t)size + 1), *to = text;
    if (rows == NULL || text == NULL) {
        free(rows);
        free(text);
        return PyErr_NoMemory();
    }
    const char *p = begin;
    for (; found < count; p = rows[found++].end + 1) {
        Line line = split(p, memchr(p, '\n', (size_t)(end - p)));
        Row *row = &rows[found];
        const char *key = line.row, *key_end = row->end = line.end;
        if (key == NULL) /* with fewer tabs, the row is what follows the last one */
            for (key = line.end; key > p && key[-1] != '\t'; key--)
                ;
        row->row = key;
        row->begin = whole ? p : row->row;
        row->router = router;
        if (!router->in_order)
            key = column_of(row->row, row->end, router->places[0], &key_end);
        row->head = key == NULL ? 0 : head_of(key, key_end);
    }
    qsort(rows, (size_t)count, sizeof *rows, by_key);
    for (Py_ssize_t i = 0; i < count; i++) {
        size_t length = (size_t)(rows[i].end - rows[i].begin) + 1;
        memcpy(to, rows[i].begin, length);
        to += length;
    }
    memcpy(to, p, (size_t)(end - p)); /* a line without an end stays the last */
    to += end - p;
    PyObject *made = PyBytes_FromStringAndSize(text, to - text);
    free(rows);
    free(text);
    return made;
}

/* -- the type ---------------------------------------------------------------------------------------------------- */

static PyObject *router_reached(PyObject *self, PyObject *none)
{
    const Router *router = (const Router *)self;
    (void)none;
    if (!router->any)
        return Py_BuildValue("(OO)", Py_None, Py_None);
    return Py_BuildValue("(LL)", (long long)router->first, (long long)router->second);
}

static PyObject *router_repeats(PyObject *self, PyObject *none)
{
    (void)none;
    return PyBool_FromLong(((const Router *)self)->repeated);
}

static void router_dealloc(PyObject *self)
{
    Router *router = (Router *)self;
    PyTypeObject *type = Py_TYPE(self);
    forget(&router->keys);
    forget(&router->filtered);
    forget_olds(router);
    free(router->places);
    free(router->is_key);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static int fill(Router *router, PyObject *places)
{
    for (Py_ssize_t i = 0; i < router->count; i++) {
        long place = PyLong_AsLong(PyTuple_GetItem(places, i));
        if (PyErr_Occurred())
            return -1;
        if (place < 1 || place > 4096) {
            PyErr_SetString(PyExc_ValueError, "the router takes no such key");
            return -1;
        }
        router->places[i] = place;
        if (place > router->last)
            router->last = place;
    }
    router->is_key = calloc((size_t)router->last + 1, 1);
    if (router->is_key == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t different = 0;
    router->in_order = 1;
    for (Py_ssize_t i = 0; i < router->count; i++) {
        different += !router->is_key[router->places[i]];
        router->is_key[router->places[i]] = 1;
        router->in_order &= router->places[i] == (long)i + 1;
    }
    if (different < router->count) {
        PyErr_SetString(PyExc_ValueError, "the router takes no such key");
        return -1;
    }
    router->leads = router->last == (long)router->count;
    return 0;
}

static PyObject *router_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *places;
    long long most;
    if (names != NULL && PyDict_Size(names)) {
        PyErr_SetString(PyExc_TypeError, "Router takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "O!L:Router", &PyTuple_Type, &places, &most))
        return NULL;
    if (PyTuple_Size(places) < 1) {
        PyErr_SetString(PyExc_ValueError, "the router takes no such key");
        return NULL;
    }
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Router *router = (Router *)make(type, 0);
    if (router == NULL)
        return NULL;
    router->count = PyTuple_Size(places);
    router->most = most;
    router->watching = most > 0;
    router->places = calloc((size_t)router->count, sizeof(long));
    if (router->places == NULL)
        PyErr_NoMemory();
    else if (fill(router, places) == 0)
        return (PyObject *)router;
    Py_DECREF(router);
    return NULL;
}

static PyMethodDef METHODS[] = {
    {"take", router_take, METH_O, "Return the lines of a block to stage, its inserts, and the numbers of inserts and of lines left out."},
    {"ordered", router_ordered, METH_VARARGS, "Return lines, whole or only their rows, in the order of their keys."},
    {"left", router_left, METH_NOARGS, "Return the retained old images, and retain no others."},
    {"reached", router_reached, METH_NOARGS, "Return the highest point of the inserts, and the highest sequence there."},
    {"repeats", router_repeats, METH_NOARGS, "Return whether two events with the same key were found."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "The routing of one step."},
    {Py_tp_new, router_new},
    {Py_tp_dealloc, router_dealloc},
    {Py_tp_methods, METHODS},
    {0, NULL},
};

static PyType_Spec SPEC = {"slotkeeper.core.sinks.postgres.write._routing.Router", sizeof(Router), 0, Py_TPFLAGS_DEFAULT,
                           SLOTS};

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&SPEC);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddObjectRef(module, "Router", type);
    Py_DECREF(type);
    return failed ? failed : PyModule_AddIntConstant(module, "VERSION", ROUTER_VERSION);
}

static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_routing", "The compiled routing of the events of a step.", 0, NULL, MODULE_SLOTS,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__routing(void)
{
    return PyModuleDef_Init(&MODULE);
}
