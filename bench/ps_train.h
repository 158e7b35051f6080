/*
 * bench/ps_train.h - the command train of ps_throughput
 *
 * Trains one network on Fashion-MNIST for each transport, strategy, compression
 * and batch that was asked for, with several seeds each, in pods; tells how
 * long it took from the first touch of the data to the target accuracy. Runs
 * that differ in nothing but what carries them must end with the same
 * parameters, to the bit.
 */
#ifndef BENCH_PS_TRAIN_H
#define BENCH_PS_TRAIN_H

int ps_train_main(int argc, char **argv);

#endif
