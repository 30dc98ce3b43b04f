/* SEQ(A a, B b, C c, D d) WHERE a.diff < b.diff AND b.diff < c.diff AND a.key = d.key WITHIN w, in C: the yardstick.

   Everything that a specialised program can take for granted is taken for granted: the types are the codes 0 to 3, the
   times of the stream differ, a match is four sequence numbers. Per type there is one linear buffer that moves its live part
   to the front when it is full. An event remembers how many events of the later types had come before it, so that 'after a'
   and 'after b' are bounds of a loop and not comparisons. Candidates are compared 64 at a time into a bit mask (AVX2 where
   there is, else loops that the compiler vectorises), and only the set bits are walked. Rows go to a block of fixed size, which
   starts again from its beginning when it is full, as if a consumer had drained it. */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#ifdef __AVX2__
#include <immintrin.h>
#endif

#define PADDING 64 /* a scan reads whole blocks of 64, also over the end */

typedef struct {
    int64_t *ts, *seq, *key;
    double *diff;
    int64_t *after_b, *after_c;        /* how many B, C had come before this event, counted from the start of the stream */
    int64_t head, tail, base, capacity; /* live: head..tail; the event at index i is number base + i */
} Buffer;

typedef struct {
    Buffer a, b, c;
    int64_t window, next, rows, filled, room; /* filled: rows of the block in use */
    int64_t *out;
    int order;
} Kernel;

enum { ORDER_ABC, ORDER_ACB, ORDER_CBA };

static int64_t *integers(int64_t n) { return calloc((size_t)(n + PADDING), sizeof(int64_t)); }

static void open_buffer(Buffer *x, int64_t capacity) {
    memset(x, 0, sizeof *x);
    x->ts = integers(capacity);
    x->seq = integers(capacity);
    x->key = integers(capacity);
    x->after_b = integers(capacity);
    x->after_c = integers(capacity);
    x->diff = calloc((size_t)(capacity + PADDING), sizeof(double));
    x->capacity = capacity;
}

static void close_buffer(Buffer *x) {
    free(x->ts);
    free(x->seq);
    free(x->key);
    free(x->after_b);
    free(x->after_c);
    free(x->diff);
}

static void resize(int64_t **column, int64_t capacity) {
    *column = realloc(*column, (size_t)(capacity + PADDING) * sizeof(int64_t));
}

static void make_room(Buffer *x) {
    int64_t live = x->tail - x->head;
    if (2 * live > x->capacity) {
        x->capacity *= 2;
        resize(&x->ts, x->capacity);
        resize(&x->seq, x->capacity);
        resize(&x->key, x->capacity);
        resize(&x->after_b, x->capacity);
        resize(&x->after_c, x->capacity);
        x->diff = realloc(x->diff, (size_t)(x->capacity + PADDING) * sizeof(double));
        return;
    }
    size_t bytes = (size_t)live * sizeof(int64_t);
    memmove(x->ts, x->ts + x->head, bytes);
    memmove(x->seq, x->seq + x->head, bytes);
    memmove(x->key, x->key + x->head, bytes);
    memmove(x->after_b, x->after_b + x->head, bytes);
    memmove(x->after_c, x->after_c + x->head, bytes);
    memmove(x->diff, x->diff + x->head, bytes);
    x->base += x->head;
    x->head = 0;
    x->tail = live;
}

static inline void expire(Buffer *x, int64_t horizon) {
    while (x->head < x->tail && x->ts[x->head] <= horizon) x->head++;
}

static inline int64_t more(int64_t x, int64_t y) { return x > y ? x : y; }

/* Bits for the first n of the 64 values from `values` on; n may be more than 64. */
static inline uint64_t first(int64_t n) { return n >= 64 ? ~0ull : (1ull << n) - 1; }

static inline uint64_t equal64(const int64_t *values, int64_t wanted, int64_t n) {
    uint64_t mask = 0;
#ifdef __AVX2__
    __m256i w = _mm256_set1_epi64x(wanted);
    for (int64_t j = 0; j < 64 && j < n; j += 4) {
        __m256i v = _mm256_loadu_si256((const __m256i *)(values + j));
        mask |= (uint64_t)_mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(v, w))) << j;
    }
#else
    for (int64_t j = 0; j < 64; j++) mask |= (uint64_t)(values[j] == wanted) << j;
#endif
    return mask & first(n);
}

static inline uint64_t above64(const double *values, double bound, int64_t n) {
    uint64_t mask = 0;
#ifdef __AVX2__
    __m256d w = _mm256_set1_pd(bound);
    for (int64_t j = 0; j < 64 && j < n; j += 4) {
        __m256d v = _mm256_loadu_pd(values + j);
        mask |= (uint64_t)_mm256_movemask_pd(_mm256_cmp_pd(v, w, _CMP_GT_OQ)) << j;
    }
#else
    for (int64_t j = 0; j < 64; j++) mask |= (uint64_t)(values[j] > bound) << j;
#endif
    return mask & first(n);
}

static inline uint64_t below64(const double *values, double bound, int64_t n) {
    uint64_t mask = 0;
#ifdef __AVX2__
    __m256d w = _mm256_set1_pd(bound);
    for (int64_t j = 0; j < 64 && j < n; j += 4) {
        __m256d v = _mm256_loadu_pd(values + j);
        mask |= (uint64_t)_mm256_movemask_pd(_mm256_cmp_pd(v, w, _CMP_LT_OQ)) << j;
    }
#else
    for (int64_t j = 0; j < 64; j++) mask |= (uint64_t)(values[j] < bound) << j;
#endif
    return mask & first(n);
}

/* Where the next rows go: up to 64 may follow without a look at the room left. */
static inline int64_t *next_rows(Kernel *k) {
    if (k->filled + 64 > k->room) k->filled = 0;
    return k->out + 4 * k->filled;
}

static inline void advance(Kernel *k, uint64_t mask) {
    int64_t n = __builtin_popcountll(mask);
    k->rows += n;
    k->filled += n;
}

/* One row for each set bit; the variable that the bits stand for is number `place` of the row. */
static inline void emit(Kernel *k, uint64_t mask, const int64_t *seqs, int place, int64_t x0, int64_t x1, int64_t x2, int64_t x3) {
    int64_t *row = next_rows(k);
    advance(k, mask);
#ifdef __AVX2__
    __m256i rest = _mm256_set_epi64x(x3, x2, x1, x0);
    for (; mask; mask &= mask - 1, row += 4) {
        __m256i seq = _mm256_set1_epi64x(seqs[__builtin_ctzll(mask)]);
        __m256i both = place == 0 ? _mm256_blend_epi32(rest, seq, 0x03)
                     : place == 1 ? _mm256_blend_epi32(rest, seq, 0x0c)
                                  : _mm256_blend_epi32(rest, seq, 0x30);
        _mm256_storeu_si256((__m256i *)row, both);
    }
#else
    for (; mask; mask &= mask - 1, row += 4) {
        row[0] = x0;
        row[1] = x1;
        row[2] = x2;
        row[3] = x3;
        row[place] = seqs[__builtin_ctzll(mask)];
    }
#endif
}

/* d finds a by its key, then b after a, then c after b. */
static void search_abc(Kernel *k, int64_t d_key, int64_t d_seq) {
    Buffer *A = &k->a, *B = &k->b, *C = &k->c;
    for (int64_t i = A->head; i < A->tail; i += 64) {
        uint64_t a_mask = equal64(A->key + i, d_key, A->tail - i);
        while (a_mask) {
            int64_t a = i + __builtin_ctzll(a_mask);
            a_mask &= a_mask - 1;
            double a_diff = A->diff[a];
            for (int64_t j = more(B->head, A->after_b[a] - B->base); j < B->tail; j += 64) {
                uint64_t b_mask = above64(B->diff + j, a_diff, B->tail - j);
                while (b_mask) {
                    int64_t b = j + __builtin_ctzll(b_mask);
                    b_mask &= b_mask - 1;
                    double b_diff = B->diff[b];
                    for (int64_t l = more(C->head, B->after_c[b] - C->base); l < C->tail; l += 64) {
                        uint64_t c_mask = above64(C->diff + l, b_diff, C->tail - l);
                        if (c_mask) emit(k, c_mask, C->seq + l, 2, A->seq[a], B->seq[b], 0, d_seq);
                    }
                }
            }
        }
    }
}

/* d finds a by its key, then c after a (which has to be above a, for b lies between), then b between the two. */
static void search_acb(Kernel *k, int64_t d_key, int64_t d_seq) {
    Buffer *A = &k->a, *B = &k->b, *C = &k->c;
    for (int64_t i = A->head; i < A->tail; i += 64) {
        uint64_t a_mask = equal64(A->key + i, d_key, A->tail - i);
        while (a_mask) {
            int64_t a = i + __builtin_ctzll(a_mask);
            a_mask &= a_mask - 1;
            double a_diff = A->diff[a];
            int64_t b_first = more(B->head, A->after_b[a] - B->base);
            for (int64_t l = more(C->head, A->after_c[a] - C->base); l < C->tail; l += 64) {
                uint64_t c_mask = above64(C->diff + l, a_diff, C->tail - l);
                while (c_mask) {
                    int64_t c = l + __builtin_ctzll(c_mask);
                    c_mask &= c_mask - 1;
                    int64_t b_stop = C->after_b[c] - B->base;
                    for (int64_t j = b_first; j < b_stop; j += 64) {
                        uint64_t b_mask = above64(B->diff + j, a_diff, b_stop - j) & below64(B->diff + j, C->diff[c], b_stop - j);
                        if (b_mask) emit(k, b_mask, B->seq + j, 1, A->seq[a], 0, C->seq[c], d_seq);
                    }
                }
            }
        }
    }
}

/* d takes each c, then b before c, then a before b with the key: what an order without regard to the key would do. */
static void search_cba(Kernel *k, int64_t d_key, int64_t d_seq) {
    Buffer *A = &k->a, *B = &k->b, *C = &k->c;
    for (int64_t c = C->head; c < C->tail; c++) {
        int64_t b_stop = C->after_b[c] - B->base;
        for (int64_t j = B->head; j < b_stop; j += 64) {
            uint64_t b_mask = below64(B->diff + j, C->diff[c], b_stop - j);
            while (b_mask) {
                int64_t b = j + __builtin_ctzll(b_mask);
                b_mask &= b_mask - 1;
                int64_t a_stop = B->after_c[b] - A->base; /* for B the column counts A */
                for (int64_t i = A->head; i < a_stop; i += 64) {
                    uint64_t a_mask = equal64(A->key + i, d_key, a_stop - i) & below64(A->diff + i, B->diff[b], a_stop - i);
                    if (a_mask) emit(k, a_mask, A->seq + i, 0, 0, B->seq[b], C->seq[c], d_seq);
                }
            }
        }
    }
}

static inline int64_t store(Buffer *x, int64_t ts, int64_t seq, int64_t key, double diff) {
    if (x->tail == x->capacity) make_room(x);
    int64_t i = x->tail++;
    x->ts[i] = ts;
    x->seq[i] = seq;
    x->key[i] = key;
    x->diff[i] = diff;
    return i;
}

Kernel *kernel_open(int64_t window, int64_t room, int order) {
    Kernel *k = calloc(1, sizeof *k);
    open_buffer(&k->a, 1024);
    open_buffer(&k->b, 1024);
    open_buffer(&k->c, 1024);
    k->window = window;
    k->room = room;
    k->out = malloc((size_t)room * 4 * sizeof(int64_t));
    memset(k->out, 0, (size_t)room * 4 * sizeof(int64_t));
    k->order = order;
    return k;
}

void kernel_close(Kernel *k) {
    close_buffer(&k->a);
    close_buffer(&k->b);
    close_buffer(&k->c);
    free(k->out);
    free(k);
}

const int64_t *kernel_rows(const Kernel *k) { return k->out; }

static void take(Kernel *k, int type, int64_t ts, int64_t seq, double diff, int64_t key) {
    Buffer *A = &k->a, *B = &k->b, *C = &k->c;
    int64_t at, horizon = ts - k->window;
    switch (type) {
    case 0:
        expire(A, horizon);
        at = store(A, ts, seq, key, diff);
        A->after_b[at] = B->base + B->tail;
        A->after_c[at] = C->base + C->tail;
        break;
    case 1:
        expire(B, horizon);
        at = store(B, ts, seq, key, diff);
        B->after_c[at] = k->order == ORDER_CBA ? A->base + A->tail : C->base + C->tail;
        break;
    case 2:
        expire(C, horizon);
        at = store(C, ts, seq, key, diff);
        C->after_b[at] = B->base + B->tail;
        break;
    case 3:
        expire(A, horizon);
        expire(B, horizon);
        expire(C, horizon);
        switch (k->order) {
        case ORDER_ABC: search_abc(k, key, seq); break;
        case ORDER_ACB: search_acb(k, key, seq); break;
        default: search_cba(k, key, seq);
        }
        break;
    }
}

/* Take in n events; the number of matches so far. The sequence numbers of the last ones are in kernel_rows. */
int64_t kernel_push(Kernel *k, int64_t n, const int8_t *type, const int64_t *ts, const double *diff, const int64_t *key) {
    enum { STRETCH = 1024 };
    int64_t chosen[STRETCH];
    for (int64_t start = 0; start < n; start += STRETCH) {
        int64_t stop = start + STRETCH < n ? start + STRETCH : n, kept = 0;
        /* Most types are not the query's: they are left out without a branch that could be mispredicted. */
        for (int64_t i = start; i < stop; i++) {
            chosen[kept] = i;
            kept += type[i] < 4;
        }
        for (int64_t j = 0; j < kept; j++) {
            int64_t i = chosen[j];
            take(k, type[i], ts[i], k->next + i, diff[i], key[i]);
        }
    }
    k->next += n;
    return k->rows;
}
