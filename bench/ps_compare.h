/*
 * bench/ps_compare.h - the commands compare, matrix and reproduce
 */
#ifndef BENCH_PS_COMPARE_H
#define BENCH_PS_COMPARE_H

/* argv[0] is the command. Returns the exit status of the program. */
int ps_compare_main(int argc, char **argv);
int ps_matrix_main(int argc, char **argv);
int ps_reproduce_main(int argc, char **argv);

#endif
