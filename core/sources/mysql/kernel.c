/* Decode the rows of one binlog event, as rows.py, values.py, tables.py and drivers/pipe.py do in Python.

   The Python code is the definition. The kernel gives up (returns None) on every event in which it meets anything that
   a server does not write, and the caller decodes that event in Python: results and errors are the same by
   construction. The kernel reads only body[at:stop]; `find` compares each length with the bytes that are left.

   A Plan is immutable. Each call holds the interpreter lock, because a call takes less time than handing the lock over.
   Stable ABI of Python 3.11 (PEP 384); without a compiler, nothing of this is needed. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define KERNEL_VERSION 1 /* the same number as in kernel.py: a kernel of another version is not used */

enum op { INT, FLOAT, DOUBLE, YEAR, DATE, DATETIME, TIMESTAMP, TIME, DECIMAL, BIT, ENUM, SET, /* of fixed size */
          UTF8, ASCII, BYTES, PADDED, UUID, INET4, CALL };
/* the names of the ops in kernel.py, in this order */
static const char OPS[] = "ifdyDMSTnbes" "uarpU4c";

enum written { TEXT, OBJECT }; /* how a value becomes text: by this file, or by `spell` and str() */

typedef struct {
    enum op op;
    enum written written;
    int size;          /* bytes of the value, or of its length if `sized` */
    int sized;
    long first, second; /* parameters of the op */
    PyObject *extra;   /* labels of ENUM and SET; the function of ASCII and CALL */
    PyObject *spell;   /* from value to text; NULL for str() */
} Column;

typedef struct {
    PyObject_HEAD
    Py_ssize_t count, written;
    Column *columns;
    Py_ssize_t *places;    /* the columns of a result, in its order */
    unsigned char *kept;   /* for each of them: whether a key image contains it */
    unsigned char *wanted; /* for each column: 0, 1 if it is among `places`, 2 if a key image contains it */
} Plan;

/* The row that a call is at. Each call has its own, because a call of Python code can let another thread in. */
typedef struct {
    const unsigned char *body;
    Py_ssize_t at;       /* the row's offset */
    Py_ssize_t *place;   /* the offset of each column's value, -1 for NULL */
    Py_ssize_t *size;
} Row;

/* Images that contain only the key: a deleted row, and the image before an update. */
static int is_key(char kind)
{
    return kind == 'd' || kind == 'B';
}

/* -- output ------------------------------------------------------------------------------------------------------ */

typedef struct {
    char *data;
    size_t size, room;
} Out;

enum { FAILED = -1, GIVE_UP = 0, DONE = 1 }; /* FAILED: a Python exception is set */

static int reserve(Out *out, size_t more)
{
    if (more <= out->room - out->size)
        return DONE;
    if (more > (size_t)PY_SSIZE_T_MAX / 4 || out->size > (size_t)PY_SSIZE_T_MAX / 4) {
        PyErr_NoMemory();
        return FAILED;
    }
    size_t room = out->room * 2 > out->size + more ? out->room * 2 : out->size + more;
    char *data = realloc(out->data, room);
    if (data == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    out->data = data;
    out->room = room;
    return DONE;
}

/* Whether one of eight bytes is not printable ASCII, or is a backslash. */
static int is_odd(uint64_t word)
{
    const uint64_t ones = 0x0101010101010101ULL, highs = 0x8080808080808080ULL;
    uint64_t slashes = word ^ (ones * 0x5C);
    return ((word | (word - ones * 0x20) | ((slashes - ones) & ~slashes)) & highs) != 0;
}

/* The length of the character at p in strict UTF-8 (RFC 3629: no surrogates, shortest form); 0 if it is invalid. */
static int character(const unsigned char *p, size_t left)
{
    unsigned char c = p[0];
    if (c < 0x80)
        return 1;
    if (c < 0xC2 || c > 0xF4)
        return 0;
    int size = c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
    if ((size_t)size > left)
        return 0;
    unsigned char low = c == 0xE0 ? 0xA0 : c == 0xF0 ? 0x90 : 0x80;
    unsigned char high = c == 0xED ? 0x9F : c == 0xF4 ? 0x8F : 0xBF;
    if (p[1] < low || p[1] > high)
        return 0;
    for (int i = 2; i < size; i++)
        if ((p[i] & 0xC0) != 0x80)
            return 0;
    return size;
}

/* Write text as a field of COPY text (PostgreSQL, "COPY, Text Format"); give up if it is not UTF-8. */
static int escaped(Out *out, const unsigned char *p, size_t size)
{
    int done = reserve(out, size * 2 + 8);
    if (done != DONE)
        return done;
    char *to = out->data + out->size;
    const unsigned char *end = p + size;
    while (p < end) {
        uint64_t word;
        while (end - p >= 8 && (memcpy(&word, p, 8), !is_odd(word))) {
            memcpy(to, &word, 8);
            p += 8;
            to += 8;
        }
        if (p == end)
            break;
        unsigned char c = *p;
        if (c >= 0x80) {
            int length = character(p, (size_t)(end - p));
            if (!length)
                return GIVE_UP;
            memcpy(to, p, (size_t)length);
            p += length;
            to += length;
            continue;
        }
        char with = c == '\\' ? '\\' : c == '\t' ? 't' : c == '\n' ? 'n' : c == '\r' ? 'r' : 0;
        if (with) {
            *to++ = '\\';
            *to++ = with;
        } else {
            *to++ = (char)c;
        }
        p++;
    }
    out->size = (size_t)(to - out->data);
    return DONE;
}

static int is_utf8(const unsigned char *p, size_t size)
{
    const unsigned char *end = p + size;
    while (p < end) {
        int length = character(p, (size_t)(end - p));
        if (!length)
            return 0;
        p += length;
    }
    return 1;
}

static int is_ascii(const unsigned char *p, size_t size)
{
    unsigned char seen = 0;
    for (size_t i = 0; i < size; i++)
        seen |= p[i];
    return seen < 0x80;
}

/* -- text of values ---------------------------------------------------------------------------------------------- */

#define MOST_TEXT 160 /* above the text of any value of fixed size, or of a UUID */

static uint64_t little(const unsigned char *p, int size)
{
    uint64_t number = 0;
    for (int i = size - 1; i >= 0; i--)
        number = number << 8 | p[i];
    return number;
}

static uint64_t big(const unsigned char *p, int size)
{
    uint64_t number = 0;
    for (int i = 0; i < size; i++)
        number = number << 8 | p[i];
    return number;
}

static const uint64_t TENS[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000};

/* Write a number with at least `digits` digits. */
static char *digits(char *to, uint64_t number, int least)
{
    char text[24];
    int size = 0;
    do {
        text[size++] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    while (size < least)
        text[size++] = '0';
    while (size)
        *to++ = text[--size];
    return to;
}

static char *two(char *to, unsigned number)
{
    if (number > 99)
        return digits(to, number, 2);
    *to++ = (char)('0' + number / 10);
    *to++ = (char)('0' + number % 10);
    return to;
}

static char *day_text(char *to, unsigned year, unsigned month, unsigned day)
{
    to = digits(to, year, 4);
    *to++ = '-';
    to = two(to, month);
    *to++ = '-';
    return two(to, day);
}

static char *clock_text(char *to, unsigned hour, unsigned minute, unsigned second)
{
    to = two(to, hour);
    *to++ = ':';
    to = two(to, minute);
    *to++ = ':';
    return two(to, second);
}

/* Write ".fraction"; NULL for a fraction that has more digits than its type. */
static char *fraction(char *to, uint64_t stored, int count)
{
    uint64_t number = stored / (count % 2 ? 10 : 1);
    if (!count)
        return to;
    if (number >= TENS[count])
        return NULL;
    *to++ = '.';
    return digits(to, number, count);
}

static char *datetime_text(char *to, const unsigned char *p, int count)
{
    int bytes = (count + 1) / 2;
    uint64_t packed = big(p, 5) & 0x7FFFFFFFFFULL;
    unsigned days = (unsigned)(packed >> 17), seconds = (unsigned)(packed & 0x1FFFF), months = days >> 5;
    to = day_text(to, months / 13, months % 13, days & 31);
    *to++ = ' ';
    to = clock_text(to, seconds >> 12, seconds >> 6 & 63, seconds & 63);
    return fraction(to, big(p + 5, bytes), count);
}

static char *timestamp_text(char *to, const unsigned char *p, int count)
{
    int bytes = (count + 1) / 2;
    uint64_t seconds = big(p, 4), part = big(p + 4, bytes);
    if (!seconds && !part) {
        memcpy(to, "0000-00-00 00:00:00", 19);
        return fraction(to + 19, 0, count);
    }
    /* Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days, for days from 1970 on */
    unsigned z = (unsigned)(seconds / 86400) + 719468, era = z / 146097, in_era = z - era * 146097;
    unsigned year = (in_era - in_era / 1460 + in_era / 36524 - in_era / 146096) / 365;
    unsigned in_year = in_era - (365 * year + year / 4 - year / 100), shifted = (5 * in_year + 2) / 153;
    unsigned month = shifted < 10 ? shifted + 3 : shifted - 9, left = (unsigned)(seconds % 86400);
    to = day_text(to, year + era * 400 + (month <= 2), month, in_year - (153 * shifted + 2) / 5 + 1);
    *to++ = ' ';
    to = clock_text(to, left / 3600, left / 60 % 60, left % 60);
    return fraction(to, part, count);
}

static char *time_text(char *to, const unsigned char *p, int count)
{
    int bits = (count + 1) / 2 * 8;
    int64_t whole = (int64_t)big(p, 3 + bits / 8) - ((int64_t)0x800000 << bits);
    if (whole < 0) {
        *to++ = '-';
        whole = -whole;
    }
    uint64_t packed = (uint64_t)whole >> bits;
    to = clock_text(to, packed >> 12 & 1023, packed >> 6 & 63, packed & 63);
    return fraction(to, (uint64_t)whole & (((uint64_t)1 << bits) - 1), count);
}

/* Write a DECIMAL (MySQL, decimal2bin in strings/decimal.cc); NULL if a group has more digits than it can. */
static char *decimal_text(char *to, const unsigned char *p, int size, int precision, int scale)
{
    static const int BYTES_OF[] = {0, 1, 1, 2, 2, 3, 3, 4, 4, 4};
    unsigned char bytes[32];
    int negative = !(p[0] & 0x80), whole = precision - scale, at = 0, started = 0;
    for (int i = 0; i < size; i++)
        bytes[i] = negative ? (unsigned char)~p[i] : p[i];
    bytes[0] = (unsigned char)(bytes[0] & 0x7F);
    if (negative)
        *to++ = '-';
    for (int left = whole; left > 0;) {
        int count = left % 9 ? left % 9 : 9;
        uint64_t group = big(bytes + at, BYTES_OF[count]);
        if (group >= TENS[count])
            return NULL;
        at += BYTES_OF[count];
        left -= count;
        if (group || started) {
            to = digits(to, group, started ? 9 : 1);
            started = 1;
        }
    }
    if (!started)
        *to++ = '0';
    if (scale)
        *to++ = '.';
    for (int left = scale; left > 0;) {
        int count = left > 9 ? 9 : left;
        uint64_t group = big(bytes + at, BYTES_OF[count]);
        if (group >= TENS[count])
            return NULL;
        at += BYTES_OF[count];
        left -= count;
        to = digits(to, group, count);
    }
    return to;
}

/* Write a double as `float_text` does: the shortest digits, and an exponent below 1e-4 and from 10^most on. NULL if the
   number is not finite. */
static char *number_text(char *to, double value, int most)
{
    static const double LIMITS[] = {1e6, 1e15};
    double limit = LIMITS[most == 15], size = fabs(value);
    if (!isfinite(value))
        return NULL;
    /* A decimal of up to 15 digits that a double is nearest to is the shortest: no other has as few digits. */
    if (size < limit && size < 1e8) {
        double scaled = rint(size * 1e6);
        if (scaled / 1e6 == size && (size >= 1e-3 || size == 0)) {
            uint64_t all = (uint64_t)scaled, part = all % 1000000;
            if (signbit(value))
                *to++ = '-';
            to = digits(to, all / 1000000, 1);
            if (!part)
                return to;
            *to++ = '.';
            to = digits(to, part, 6);
            while (to[-1] == '0')
                to--;
            return to;
        }
    }
    char *plain = PyOS_double_to_string(value, 'r', 0, 0, NULL);
    if (plain == NULL) {
        PyErr_Clear();
        return NULL;
    }
    char *exponent = strchr(plain, 'e');
    if (exponent == NULL && size < limit) {
        size_t length = strlen(plain);
        memcpy(to, plain, length);
        PyMem_Free(plain);
        return to + length;
    }
    const char *from = plain, *stop = exponent ? exponent : plain + strlen(plain), *point = NULL;
    if (*from == '-')
        *to++ = *from++;
    char *begin = to;
    *to++ = *from;
    *to++ = '.';
    for (const char *one = from + 1; one < stop; one++) {
        if (*one == '.')
            point = one;
        else
            *to++ = *one;
    }
    long leading = exponent ? strtol(exponent + 1, NULL, 10) : (long)((point ? point : stop) - from) - 1;
    while (to[-1] == '0')
        to--;
    if (to == begin + 2)
        to--;
    *to++ = 'e';
    *to++ = leading < 0 ? '-' : '+';
    to = two(to, (unsigned)labs(leading));
    PyMem_Free(plain);
    return to;
}

/* The double that `shortest_float` returns; not a number if this function cannot tell. */
static double shortest(const unsigned char *p)
{
    uint32_t wanted = (uint32_t)little(p, 4);
    float stored;
    memcpy(&stored, &wanted, 4);
    double value = stored;
    if (!isfinite(value))
        return NAN;
    if (fabs(value) < 1e6 && value == trunc(value))
        return value;
    for (int count = fabs(value) >= 0x1p-126 ? 6 : 1; count < 10; count++) {
        char *text = PyOS_double_to_string(value, 'g', count, 0, NULL);
        double found = text == NULL ? NAN : PyOS_string_to_double(text, NULL, NULL);
        PyMem_Free(text);
        if (PyErr_Occurred()) {
            PyErr_Clear();
            return NAN;
        }
        float narrow = fabs(found) >= 0x1.ffffffp127 /* halfway to the next FLOAT */ ? INFINITY : (float)found;
        uint32_t bits;
        memcpy(&bits, &narrow, 4);
        if (count == 9 || bits == wanted)
            return found;
    }
    return NAN;
}

static char *hex(char *to, const unsigned char *p, size_t size)
{
    static const char HEX[] = "0123456789abcdef";
    for (size_t i = 0; i < size; i++) {
        *to++ = HEX[p[i] >> 4];
        *to++ = HEX[p[i] & 15];
    }
    return to;
}

/* Write the text of a value that needs no escapes; NULL to give up. `to` has MOST_TEXT bytes. */
static char *plain_text(const Column *column, const unsigned char *p, size_t size, char *to)
{
    unsigned char padded[16] = {0};
    switch (column->op) {
    case INT: {
        uint64_t number = little(p, column->size);
        int bits = column->size * 8;
        if (column->first && number >> (bits - 1)) {
            *to++ = '-';
            number = (bits < 64 ? (uint64_t)1 << bits : 0) - number;
        }
        return digits(to, number, 1);
    }
    case FLOAT: {
        double found = shortest(p);
        return isnan(found) ? NULL : number_text(to, found, 6);
    }
    case DOUBLE: {
        double found;
        uint64_t bits = little(p, 8);
        memcpy(&found, &bits, 8);
        return number_text(to, found, 15);
    }
    case YEAR:
        return digits(to, *p ? 1900u + *p : 0u, 1);
    case DATE: {
        unsigned packed = (unsigned)little(p, 3);
        return day_text(to, packed >> 9, packed >> 5 & 15, packed & 31);
    }
    case DATETIME:
        return datetime_text(to, p, (int)column->first);
    case TIMESTAMP:
        return timestamp_text(to, p, (int)column->first);
    case TIME:
        return time_text(to, p, (int)column->first);
    case DECIMAL:
        return decimal_text(to, p, column->size, (int)column->first, (int)column->second);
    case BIT:
        return digits(to, big(p, column->size), 1);
    case UUID: {
        if (size > 16)
            return NULL;
        memcpy(padded, p, size);
        static const int GROUPS[] = {4, 2, 2, 2, 6};
        for (int i = 0, at = 0; i < 5; at += GROUPS[i++]) {
            if (i)
                *to++ = '-';
            to = hex(to, padded + at, (size_t)GROUPS[i]);
        }
        return to;
    }
    case INET4:
        if (size > 4)
            return NULL;
        memcpy(padded, p, size);
        for (int i = 0; i < 4; i++) {
            if (i)
                *to++ = '.';
            to = digits(to, padded[i], 1);
        }
        return to;
    default:
        return NULL;
    }
}

/* -- values as objects ------------------------------------------------------------------------------------------- */

/* Give up after an exception that the Python decoder would raise again; keep one that is not about the value. */
static int caught(void)
{
    if (PyErr_ExceptionMatches(PyExc_MemoryError) || !PyErr_ExceptionMatches(PyExc_Exception))
        return FAILED;
    PyErr_Clear();
    return GIVE_UP;
}

static PyObject *called(PyObject *function, PyObject *argument)
{
    PyObject *found = PyObject_CallFunctionObjArgs(function, argument, NULL);
    if (found == NULL)
        caught();
    return found;
}

static PyObject *converted(const Column *column, const unsigned char *p, size_t size)
{
    PyObject *raw = PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)size);
    if (raw == NULL)
        return NULL;
    PyObject *found = called(column->extra, raw);
    Py_DECREF(raw);
    return found;
}

static PyObject *label(const Column *column, const unsigned char *p)
{
    uint64_t number = little(p, column->size);
    if (number >= (uint64_t)PyTuple_Size(column->extra))
        return NULL;
    PyObject *found = PyTuple_GetItem(column->extra, (Py_ssize_t)number);
    Py_XINCREF(found);
    return found;
}

/* Write the labels of a SET in their order, with commas; give up on bits without a label. */
static int set_text(Out *out, const Column *column, const unsigned char *p, int escapes)
{
    uint64_t number = little(p, column->size);
    Py_ssize_t count = PyTuple_Size(column->extra);
    int any = 0;
    if (count < 64 && number >> count)
        return GIVE_UP;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!(number >> i & 1))
            continue;
        Py_ssize_t size;
        const char *text = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(column->extra, i), &size);
        if (text == NULL)
            return caught();
        int done = reserve(out, (size_t)size + 1);
        if (done != DONE)
            return done;
        if (any)
            out->data[out->size++] = ',';
        any = 1;
        if (escapes) {
            if ((done = escaped(out, (const unsigned char *)text, (size_t)size)) != DONE)
                return done;
        } else {
            memcpy(out->data + out->size, text, (size_t)size);
            out->size += (size_t)size;
        }
    }
    return DONE;
}

static PyObject *set_value(const Column *column, const unsigned char *p)
{
    Out out = {malloc(64), 0, 64};
    PyObject *found = NULL;
    if (out.data == NULL)
        return PyErr_NoMemory();
    if (set_text(&out, column, p, 0) == DONE)
        found = PyUnicode_DecodeUTF8(out.data, (Py_ssize_t)out.size, NULL);
    free(out.data);
    return found;
}

static PyObject *decoded(const unsigned char *p, size_t size)
{
    PyObject *found = PyUnicode_DecodeUTF8((const char *)p, (Py_ssize_t)size, NULL);
    if (found == NULL)
        caught();
    return found;
}

/* The object that the Python decoder makes of a value; NULL without an exception to give up. */
static PyObject *value_of(const Column *column, const unsigned char *p, size_t size)
{
    char text[MOST_TEXT];
    switch (column->op) {
    case INT: {
        uint64_t number = little(p, column->size);
        int bits = column->size * 8;
        if (column->first && number >> (bits - 1)) {
            uint64_t below = (bits < 64 ? (uint64_t)1 << bits : 0) - number; /* from 1 to 2^63 */
            return PyLong_FromLongLong(-(long long)(below - 1) - 1);
        }
        return PyLong_FromUnsignedLongLong(number);
    }
    case FLOAT: {
        double found = shortest(p);
        return isnan(found) ? NULL : PyFloat_FromDouble(found);
    }
    case DOUBLE: {
        double found;
        uint64_t bits = little(p, 8);
        memcpy(&found, &bits, 8);
        return PyFloat_FromDouble(found);
    }
    case YEAR:
        return PyLong_FromLong(*p ? 1900 + *p : 0);
    case BIT:
        return PyLong_FromUnsignedLongLong(big(p, column->size));
    case ENUM:
        return label(column, p);
    case SET:
        return set_value(column, p);
    case ASCII:
        return is_ascii(p, size) ? decoded(p, size) : converted(column, p, size);
    case UTF8:
        return decoded(p, size);
    case BYTES:
        return PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)size);
    case PADDED: {
        if (size >= (size_t)column->first)
            return PyBytes_FromStringAndSize((const char *)p, (Py_ssize_t)size);
        unsigned char whole[256 * 4] = {0};
        memcpy(whole, p, size);
        return PyBytes_FromStringAndSize((const char *)whole, column->first);
    }
    case CALL:
        return converted(column, p, size);
    default: {
        char *end = plain_text(column, p, size, text);
        return end == NULL ? NULL : PyUnicode_DecodeUTF8(text, end - text, NULL);
    }
    }
}

/* Bytes as PostgreSQL's bytea, into a string or a field of COPY text, where the backslash is doubled. */
static int bytes_text(Out *out, const Column *column, const unsigned char *p, size_t size, int escapes)
{
    size_t padding = column->op == PADDED && size < (size_t)column->first ? (size_t)column->first - size : 0;
    int done = reserve(out, 2 * (size + padding) + 3);
    if (done != DONE)
        return done;
    char *to = out->data + out->size;
    *to++ = '\\';
    if (escapes)
        *to++ = '\\';
    *to++ = 'x';
    to = hex(to, p, size);
    memset(to, '0', 2 * padding);
    out->size = (size_t)(to - out->data) + 2 * padding;
    return DONE;
}

/* A value as its text for a sink, in a row: a string, or what `spell` returns. NULL without an exception to give up. */
static PyObject *field(const Column *column, const unsigned char *p, size_t size)
{
    char text[MOST_TEXT];
    if (column->written == OBJECT) {
        PyObject *value = value_of(column, p, size);
        if (value == NULL || column->spell == NULL)
            return value;
        PyObject *found = called(column->spell, value);
        Py_DECREF(value);
        return found;
    }
    if (column->op == BYTES || column->op == PADDED) {
        Out out = {NULL, 0, 0};
        PyObject *found = NULL;
        if (bytes_text(&out, column, p, size, 0) == DONE)
            found = PyUnicode_DecodeUTF8(out.data, (Py_ssize_t)out.size, NULL);
        free(out.data);
        return found;
    }
    char *end = plain_text(column, p, size, text);
    if (end != NULL)
        return PyUnicode_DecodeUTF8(text, end - text, NULL);
    return column->op >= ENUM && column->op != UUID && column->op != INET4 ? value_of(column, p, size) : NULL;
}

/* -- lines of COPY text ------------------------------------------------------------------------------------------ */

static int string_field(Out *out, PyObject *text)
{
    Py_ssize_t size;
    const char *raw = PyUnicode_AsUTF8AndSize(text, &size);
    return raw == NULL ? caught() : escaped(out, (const unsigned char *)raw, (size_t)size);
}

static int object_field(Out *out, const Column *column, const unsigned char *p, size_t size)
{
    PyObject *value = field(column, p, size);
    int done = GIVE_UP;
    if (value == NULL)
        return PyErr_Occurred() ? FAILED : GIVE_UP;
    if (PyUnicode_Check(value)) {
        done = string_field(out, value);
    } else if (value == Py_None) {
        if ((done = reserve(out, 2)) == DONE) {
            memcpy(out->data + out->size, "\\N", 2);
            out->size += 2;
        }
    } else {
        PyObject *text = PyObject_Str(value);
        done = text == NULL ? caught() : string_field(out, text);
        Py_XDECREF(text);
    }
    Py_DECREF(value);
    return done;
}

static int line_field(Out *out, const Column *column, const unsigned char *p, size_t size)
{
    if (column->written == OBJECT)
        return object_field(out, column, p, size);
    switch (column->op) {
    case UTF8:
        return escaped(out, p, size);
    case ASCII:
        return is_ascii(p, size) ? escaped(out, p, size) : object_field(out, column, p, size);
    case BYTES:
    case PADDED:
        return bytes_text(out, column, p, size, 1);
    case SET:
        return set_text(out, column, p, 1);
    case ENUM:
    case CALL:
        return object_field(out, column, p, size);
    default: {
        int done = reserve(out, MOST_TEXT);
        if (done != DONE)
            return done;
        char *end = plain_text(column, p, size, out->data + out->size);
        if (end == NULL)
            return GIVE_UP;
        out->size = (size_t)(end - out->data);
        return DONE;
    }
    }
}

/* Whether the Python decoder accepts a value that no result contains. */
static int accepted(const Column *column, const unsigned char *p, size_t size)
{
    char text[MOST_TEXT];
    switch (column->op) {
    case INT: case FLOAT: case DOUBLE: case YEAR: case DATE: case BIT: case BYTES: case PADDED:
        return DONE;
    case UTF8:
        return is_utf8(p, size) ? DONE : GIVE_UP;
    case ENUM: case SET: case ASCII: case CALL: {
        PyObject *value = column->op == ASCII && is_ascii(p, size) ? Py_NewRef(Py_None) : value_of(column, p, size);
        if (value == NULL)
            return PyErr_Occurred() ? FAILED : GIVE_UP;
        Py_DECREF(value);
        return DONE;
    }
    default:
        return plain_text(column, p, size, text) != NULL ? DONE : GIVE_UP;
    }
}

/* -- rows -------------------------------------------------------------------------------------------------------- */

/* Find the values of the row at `at`; give up if the row does not end by `stop`. */
static int find(const Plan *plan, Row *row, Py_ssize_t stop)
{
    const unsigned char *nulls = row->body + row->at;
    Py_ssize_t bitmap = (plan->count + 7) / 8, at = row->at;
    if (bitmap > stop - at)
        return GIVE_UP;
    at += bitmap;
    for (Py_ssize_t i = 0; i < plan->count; i++) {
        const Column *column = &plan->columns[i];
        if (nulls[i / 8] >> (i % 8) & 1) {
            row->place[i] = -1;
            continue;
        }
        if (column->size > stop - at)
            return GIVE_UP;
        Py_ssize_t size = column->size;
        if (column->sized) {
            uint64_t length = little(row->body + at, column->size);
            at += column->size;
            if (length > (uint64_t)(stop - at))
                return GIVE_UP;
            size = (Py_ssize_t)length;
        }
        row->place[i] = at;
        row->size[i] = size;
        at += size;
    }
    row->at = at;
    return DONE;
}

static int write_line(const Plan *plan, Out *out, const Row *row, int keys)
{
    for (Py_ssize_t i = 0; i < plan->written; i++) {
        Py_ssize_t column = plan->places[i];
        int done = reserve(out, 3);
        if (done != DONE)
            return done;
        out->data[out->size++] = '\t';
        if (row->place[column] < 0 || (keys && !plan->kept[i])) {
            out->data[out->size++] = '\\';
            out->data[out->size++] = 'N';
            continue;
        }
        done = line_field(out, &plan->columns[column], row->body + row->place[column], (size_t)row->size[column]);
        if (done != DONE)
            return done;
    }
    int done = reserve(out, 1);
    if (done == DONE)
        out->data[out->size++] = '\n';
    return done;
}

/* Check the values that an image leaves out; `all` if there is no image. */
static int check_rest(const Plan *plan, const Row *row, int keys, int all)
{
    for (Py_ssize_t i = 0; i < plan->count; i++) {
        if (row->place[i] < 0 || (!all && plan->wanted[i] > (keys ? 1 : 0)))
            continue;
        int done = accepted(&plan->columns[i], row->body + row->place[i], (size_t)row->size[i]);
        if (done != DONE)
            return done;
    }
    return DONE;
}

/* The row as a tuple: of values, or after its place, number and kind, of text. NULL without an exception to give up. */
static PyObject *tuple_of(const Plan *plan, const Row *row, PyObject *place, long long number, char kind)
{
    int keys = is_key(kind);
    Py_ssize_t first = place == NULL ? 0 : 3;
    PyObject *made = PyTuple_New(plan->written + first);
    if (made == NULL)
        return NULL;
    if (place != NULL) {
        PyTuple_SetItem(made, 0, Py_NewRef(place));
        PyTuple_SetItem(made, 1, PyUnicode_FromFormat("%lld", number));
        PyTuple_SetItem(made, 2, PyUnicode_FromStringAndSize(&kind, 1));
        if (PyErr_Occurred()) {
            Py_DECREF(made);
            return NULL;
        }
    }
    for (Py_ssize_t i = 0; i < plan->written; i++) {
        Py_ssize_t column = plan->places[i];
        PyObject *one;
        if (row->place[column] < 0 || (keys && !plan->kept[i])) {
            one = Py_NewRef(Py_None);
        } else {
            const unsigned char *p = row->body + row->place[column];
            size_t size = (size_t)row->size[column];
            one = place == NULL ? value_of(&plan->columns[column], p, size) : field(&plan->columns[column], p, size);
        }
        if (one == NULL) {
            Py_DECREF(made);
            return NULL;
        }
        PyTuple_SetItem(made, first + i, one);
    }
    return made;
}

/* -- calls ------------------------------------------------------------------------------------------------------- */

/* The bytes of an event, its images' place and first number, and a letter for the kind of each: "I", "d", "BU" for
   pairs, "-" for an image to leave out. `row.place` is NULL if the arguments are no part of `body`. */
typedef struct {
    PyObject *body, *place;
    Py_ssize_t stop, many;
    long long number;
    const char *kinds;
    Row row;
} Asked;

static int start(const Plan *plan, Asked *asked)
{
    Row *row = &asked->row;
    if (row->at < 0 || row->at > asked->stop || asked->stop > PyBytes_Size(asked->body) || asked->many < 1)
        return GIVE_UP;
    row->body = (const unsigned char *)PyBytes_AsString(asked->body);
    row->place = malloc((size_t)plan->count * 2 * sizeof(Py_ssize_t));
    if (row->place == NULL) {
        PyErr_NoMemory();
        return FAILED;
    }
    row->size = row->place + plan->count;
    return DONE;
}

static PyObject *given_up(void)
{
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* The rows as tuples; `asked` has been parsed. */
static PyObject *tuples(const Plan *plan, Asked *asked)
{
    Py_ssize_t images = 0;
    Row *row = &asked->row;
    int done = start(plan, asked);
    PyObject *rows = done == DONE ? PyList_New(0) : NULL;
    for (; rows != NULL && done == DONE && row->at < asked->stop; images++) {
        char kind = asked->kinds[images % asked->many];
        if ((done = find(plan, row, asked->stop)) != DONE)
            break;
        if (kind != '-') {
            PyObject *made = tuple_of(plan, row, asked->place, asked->number + (long long)PyList_Size(rows), kind);
            done = made != NULL && PyList_Append(rows, made) == 0 ? DONE : GIVE_UP;
            Py_XDECREF(made);
        }
        if (done == DONE && asked->place != NULL)
            done = check_rest(plan, row, is_key(kind), kind == '-');
    }
    free(row->place);
    if (rows != NULL && done == DONE && images % asked->many == 0)
        return rows;
    Py_XDECREF(rows);
    return given_up();
}

static PyObject *plan_values(PyObject *self, PyObject *arguments)
{
    Asked asked = {.many = 1, .kinds = "I"};
    if (!PyArg_ParseTuple(arguments, "O!nn:values", &PyBytes_Type, &asked.body, &asked.row.at, &asked.stop))
        return NULL;
    return tuples((const Plan *)self, &asked);
}

static int parse(PyObject *arguments, Asked *asked)
{
    memset(asked, 0, sizeof *asked);
    return PyArg_ParseTuple(arguments, "O!nnULs#", &PyBytes_Type, &asked->body, &asked->row.at, &asked->stop,
                            &asked->place, &asked->number, &asked->kinds, &asked->many);
}

static PyObject *plan_rows(PyObject *self, PyObject *arguments)
{
    Asked asked;
    return parse(arguments, &asked) ? tuples((const Plan *)self, &asked) : NULL;
}

static PyObject *plan_lines(PyObject *self, PyObject *arguments)
{
    const Plan *plan = (const Plan *)self;
    Asked asked;
    Out out = {NULL, 0, 0};
    Row *row = &asked.row;
    Py_ssize_t size, images = 0, count = 0;
    if (!parse(arguments, &asked))
        return NULL;
    const char *place = PyUnicode_AsUTF8AndSize(asked.place, &size);
    if (place == NULL)
        return NULL;
    int done = start(plan, &asked);
    if (done == DONE)
        done = reserve(&out, (size_t)(asked.stop - row->at) + 4096);
    for (; done == DONE && row->at < asked.stop; images++) {
        char kind = asked.kinds[images % asked.many];
        if ((done = find(plan, row, asked.stop)) != DONE)
            break;
        if (kind != '-' && (done = reserve(&out, (size_t)size + 32)) == DONE) {
            memcpy(out.data + out.size, place, (size_t)size);
            char *to = out.data + out.size + size;
            *to++ = '\t';
            to = digits(to, (uint64_t)asked.number + (uint64_t)count++, 1);
            *to++ = '\t';
            *to++ = kind;
            out.size = (size_t)(to - out.data);
            done = write_line(plan, &out, row, is_key(kind));
        }
        if (done == DONE)
            done = check_rest(plan, row, is_key(kind), kind == '-');
    }
    PyObject *found = NULL;
    if (done == DONE && images % asked.many == 0)
        found = Py_BuildValue("(y#n)", out.data, (Py_ssize_t)out.size, count);
    free(out.data);
    free(row->place);
    return found != NULL ? found : given_up();
}

/* -- the plan ---------------------------------------------------------------------------------------------------- */

static int is_valid(const Column *column)
{
    int tuple = column->extra != NULL && PyTuple_Check(column->extra);
    int call = column->extra != NULL && PyCallable_Check(column->extra);
    int bytes = column->op >= DATETIME && column->op <= TIME ? (int)(column->first + 1) / 2 : 0;
    if (column->sized)
        return column->size >= 1 && column->size <= 4 && column->first >= 0 && column->first <= 1024 &&
               ((column->op != ASCII && column->op != CALL) || call);
    switch (column->op) {
    case INT:
        return column->size >= 1 && column->size <= 8;
    case FLOAT:
        return column->size == 4;
    case DOUBLE:
        return column->size == 8;
    case YEAR:
        return column->size == 1;
    case DATE:
        return column->size == 3;
    case DATETIME:
        return column->first >= 0 && column->first <= 6 && column->size == 5 + bytes;
    case TIMESTAMP:
        return column->first >= 0 && column->first <= 6 && column->size == 4 + bytes;
    case TIME:
        return column->first >= 0 && column->first <= 6 && column->size == 3 + bytes;
    case DECIMAL: {
        static const int BYTES_OF[] = {0, 1, 1, 2, 2, 3, 3, 4, 4};
        long whole = column->first - column->second, scale = column->second;
        if (column->first < 1 || column->first > 65 || scale < 0 || scale > column->first)
            return 0;
        return column->size == whole / 9 * 4 + BYTES_OF[whole % 9] + scale / 9 * 4 + BYTES_OF[scale % 9];
    }
    case BIT:
        return column->size >= 1 && column->size <= 8;
    case ENUM:
        return column->size >= 1 && column->size <= 2 && tuple;
    case SET:
        return column->size >= 1 && column->size <= 8 && tuple && PyTuple_Size(column->extra) <= 64;
    default:
        return 0;
    }
}

static int all_text(PyObject *labels)
{
    for (Py_ssize_t i = 0; i < PyTuple_Size(labels); i++)
        if (!PyUnicode_Check(PyTuple_GetItem(labels, i)))
            return 0;
    return 1;
}

static int read_column(Column *column, PyObject *described)
{
    int op, written;
    PyObject *extra, *spell;
    if (!PyArg_ParseTuple(described, "CillOiO:column", &op, &column->size, &column->first, &column->second, &extra,
                          &written, &spell))
        return FAILED;
    const char *found = op > 0 && op < 128 ? strchr(OPS, op) : NULL;
    if (found != NULL) {
        column->op = (enum op)(found - OPS);
        column->sized = column->op >= UTF8;
        column->written = written ? OBJECT : TEXT;
        column->extra = extra == Py_None ? NULL : Py_NewRef(extra);
        column->spell = spell == Py_None ? NULL : Py_NewRef(spell);
        int labelled = column->op == ENUM || column->op == SET;
        if (is_valid(column) && (!labelled || all_text(column->extra)))
            return DONE;
    }
    PyErr_SetString(PyExc_ValueError, "the kernel has no such column");
    return FAILED;
}

static void plan_dealloc(PyObject *self)
{
    Plan *plan = (Plan *)self;
    PyTypeObject *type = Py_TYPE(self);
    for (Py_ssize_t i = 0; plan->columns != NULL && i < plan->count; i++) {
        Py_XDECREF(plan->columns[i].extra);
        Py_XDECREF(plan->columns[i].spell);
    }
    free(plan->columns);
    free(plan->places);
    free(plan->kept);
    free(plan->wanted);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

static int fill(Plan *plan, PyObject *columns, PyObject *places, PyObject *kept)
{
    for (Py_ssize_t i = 0; i < plan->count; i++)
        if (read_column(&plan->columns[i], PyTuple_GetItem(columns, i)) != DONE)
            return FAILED;
    for (Py_ssize_t i = 0; i < plan->written; i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GetItem(places, i));
        int keeps = PyObject_IsTrue(PyTuple_GetItem(kept, i));
        if (PyErr_Occurred())
            return FAILED;
        if (place < 0 || place >= plan->count) {
            PyErr_SetString(PyExc_ValueError, "the kernel has no such place");
            return FAILED;
        }
        plan->places[i] = place;
        plan->kept[i] = (unsigned char)keeps;
        if (plan->wanted[place] < 1 + keeps)
            plan->wanted[place] = (unsigned char)(1 + keeps);
    }
    return DONE;
}

static PyObject *plan_new(PyTypeObject *type, PyObject *arguments, PyObject *names)
{
    PyObject *columns, *places, *kept;
    if (names != NULL && PyDict_Size(names)) {
        PyErr_SetString(PyExc_TypeError, "Plan takes no names");
        return NULL;
    }
    if (!PyArg_ParseTuple(arguments, "O!O!O!:Plan", &PyTuple_Type, &columns, &PyTuple_Type, &places, &PyTuple_Type,
                          &kept))
        return NULL;
    Py_ssize_t count = PyTuple_Size(columns), written = PyTuple_Size(places);
    if (count < 1 || count > 4096 || PyTuple_Size(kept) != written) {
        PyErr_SetString(PyExc_ValueError, "the kernel takes no such table");
        return NULL;
    }
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Plan *plan = (Plan *)make(type, 0);
    if (plan == NULL)
        return NULL;
    plan->count = count;
    plan->written = written;
    plan->columns = calloc((size_t)count, sizeof(Column));
    plan->places = calloc((size_t)written + 1, sizeof(Py_ssize_t));
    plan->kept = calloc((size_t)written + 1, 1);
    plan->wanted = calloc((size_t)count, 1);
    if (!plan->columns || !plan->places || !plan->kept || !plan->wanted) {
        PyErr_NoMemory();
    } else if (fill(plan, columns, places, kept) == DONE) {
        return (PyObject *)plan;
    }
    Py_DECREF(plan);
    return NULL;
}

static PyMethodDef METHODS[] = {
    {"values", plan_values, METH_VARARGS, "Return the rows of body[at:stop] as values; None to give up."},
    {"lines", plan_lines, METH_VARARGS, "Return the rows' images as COPY text, and their number; None to give up."},
    {"rows", plan_rows, METH_VARARGS, "Return the rows' images as tuples of text; None to give up."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot SLOTS[] = {
    {Py_tp_doc, "The decoding of one layout of a table."},
    {Py_tp_new, plan_new},
    {Py_tp_dealloc, plan_dealloc},
    {Py_tp_methods, METHODS},
    {0, NULL},
};

static PyType_Spec SPEC = {"slotkeeper.core.sources.mysql._kernel.Plan", sizeof(Plan), 0, Py_TPFLAGS_DEFAULT, SLOTS};

static int fill_module(PyObject *module)
{
    PyObject *type = PyType_FromSpec(&SPEC);
    if (type == NULL)
        return -1;
    int failed = PyModule_AddObjectRef(module, "Plan", type);
    Py_DECREF(type);
    return failed ? failed : PyModule_AddIntConstant(module, "VERSION", KERNEL_VERSION);
}

static PyModuleDef_Slot MODULE_SLOTS[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static PyModuleDef MODULE = {
    PyModuleDef_HEAD_INIT, "_kernel", "The compiled decoder of rows of a MySQL binlog.", 0, NULL, MODULE_SLOTS,
    NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__kernel(void)
{
    return PyModuleDef_Init(&MODULE);
}
