/* The shortest decimal text that a double is read back from, by Schubfach.

   R. Giulietti, "The Schubfach way to render doubles", 2020. Of the shortest decimals in the
   rounding interval of x = c 2^q this is the nearest to x. Letters are those of the paper. */

#ifndef COUNTERPOISE_SHORTEST_H
#define COUNTERPOISE_SHORTEST_H

#include <stdint.h>
#include <string.h>

#define MIN_POWER (-292)  /* of ten, in the table */
#define MAX_POWER 324
#define LONGEST_DOUBLE 32 /* characters: -1.7976931348623157e+308 and -0.0000012345678901234567 */
#define MIN_DECIMAL (-6)  /* exponents of ten that are written as zeros */
#define MAX_DECIMAL 9

/* The product of two words: its high word, and the low one. */
static inline uint64_t product(uint64_t a, uint64_t b, uint64_t *low)
{
#if defined(__SIZEOF_INT128__)
    const unsigned __int128 whole = (unsigned __int128)a * b;
    *low = (uint64_t)whole;
    return (uint64_t)(whole >> 64);
#else
    const uint64_t half = 0xffffffffu, al = a & half, ah = a >> 32, bl = b & half, bh = b >> 32;
    const uint64_t first = al * bl, middle = ah * bl + (first >> 32);
    const uint64_t other = al * bh + (middle & half);
    *low = (other << 32) | (first & half);
    return ah * bh + (middle >> 32) + (other >> 32);
#endif
}

/* g v / 2^128, rounded to odd: the last bit is 1 where anything was cut off. */
static inline uint64_t round_to_odd(const uint64_t *g, uint64_t v)
{
    uint64_t x0, y0;
    const uint64_t x1 = product(g[1], v, &x0);
    uint64_t y1 = product(g[0], v, &y0);
    y0 += x1;
    y1 += y0 < x1;
    return y1 | (y0 > 1);
}

/* s 10^k of a finite x > 0, given its bits; s may end with zeros. */
static inline uint64_t decimal(uint64_t bits, const uint64_t *powers, int *exponent)
{
    const uint64_t fraction = bits & 0xfffffffffffffu;
    const int biased = (int)(bits >> 52);
    const int q = (biased ? biased : 1) - 1075;
    const uint64_t c = biased ? fraction | (1ull << 52) : fraction;
    if (q <= 0 && q > -53 && !(c & ((1ull << -q) - 1))) {
        *exponent = 0;
        return c >> -q;
    }
    const int closer = !fraction && biased > 1; /* the next smaller double */
    const int k = (q * 1262611 - (closer ? 524031 : 0)) >> 22; /* floor of log10 of the interval */
    const int h = q + ((-k * 1741647) >> 19) + 1;
    const uint64_t *g = powers + 2 * (-k - MIN_POWER), odd = c & 1;
    const uint64_t v = round_to_odd(g, (4 * c) << h);
    const uint64_t low = round_to_odd(g, (4 * c - 2 + closer) << h) + odd;
    const uint64_t high = round_to_odd(g, (4 * c + 2) << h) - odd;
    const uint64_t s = v / 4;
    *exponent = k;
    if (s >= 10) {
        const uint64_t t = s / 10;
        const int below = low <= 40 * t, above = 40 * t + 40 <= high;
        if (below != above) {
            *exponent = k + 1;
            return t + above;
        }
    }
    const int below = low <= 4 * s, above = 4 * s + 4 <= high;
    if (below != above)
        return s + above;
    return s + (v > 4 * s + 2 || (v == 4 * s + 2 && (s & 1)));
}

/* Write the digits of s without zeros at its end; return their number, and add these zeros to k. */
static inline int write_digits(uint64_t s, char *out, int *k)
{
    char text[20];
    int first = 20, last = 20;
    while (s >= 10) {
        const uint64_t rest = s / 100;
        const unsigned pair = (unsigned)(s - 100 * rest);
        text[--first] = (char)('0' + pair % 10);
        text[--first] = (char)('0' + pair / 10);
        s = rest;
    }
    if (s)
        text[--first] = (char)('0' + s);
    while (last - first > 1 && text[last - 1] == '0') {
        last--;
        ++*k;
    }
    memcpy(out, text + first, (size_t)(last - first));
    return last - first;
}

/* Write a double as Arrow does; return the number of characters. */
static inline int write_double(double x, const uint64_t *powers, char *out)
{
    uint64_t bits;
    char *at = out, digits[20];
    int k;
    memcpy(&bits, &x, sizeof bits);
    if (x != x) {
        memcpy(out, "nan", 3);
        return 3;
    }
    if (bits >> 63)
        *at++ = '-';
    bits &= ~(1ull << 63);
    if (bits == 0x7ffull << 52) {
        memcpy(at, "inf", 3);
        return (int)(at - out) + 3;
    }
    if (!bits) {
        *at++ = '0';
        return (int)(at - out);
    }
    const uint64_t s = decimal(bits, powers, &k);
    const int n = write_digits(s, digits, &k), e = k + n - 1;
    if (e < MIN_DECIMAL || e > MAX_DECIMAL) {
        *at++ = digits[0];
        if (n > 1) {
            *at++ = '.';
            memcpy(at, digits + 1, (size_t)n - 1);
            at += n - 1;
        }
        int size = e < 0 ? -e : e;
        *at++ = 'e';
        *at++ = e < 0 ? '-' : '+';
        if (size >= 100)
            *at++ = (char)('0' + size / 100);
        if (size >= 10)
            *at++ = (char)('0' + size / 10 % 10);
        *at++ = (char)('0' + size % 10);
        return (int)(at - out);
    }
    if (e < 0) {
        memcpy(at, "0.000000", 8);
        at += 1 - e;
        memcpy(at, digits, (size_t)n);
        return (int)(at - out) + n;
    }
    for (int i = 0; i <= e || i < n; i++) {
        if (i == e + 1)
            *at++ = '.';
        *at++ = i < n ? digits[i] : '0';
    }
    return (int)(at - out);
}

#endif
