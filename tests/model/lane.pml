/*
 * tests/model/lane.pml - a lane's counters, wait words and doorbell
 *
 * What is modelled: one direction of a lane as shm/lane*.c has it, from a
 * sending process A to a receiving process B. Both sleep (lane_wait.c:
 * pl_lane_arm, look, doze, look, pl_lane_disarm), both ring (lane.h:
 * pl_lane_ring_if_waiting; lane.c: pl_lane_raise), A ends in good order or is
 * killed between any two steps, B may stop reading early.
 *
 * Memory. Each process stores into a buffer; its entries become visible one by
 * one, later and in any order but these: two of the same word stay in order,
 * and one with release comes after all that were stored before it. That allows
 * more than x86's TSO does, and what a weakly ordered machine does with stores.
 * A fence waits for the buffer to be empty. Loads are done in the order of the
 * program, which is what acquire and the fences ask for.
 *
 * The doorbell holds CAP bytes; one more is thrown away. A hang-up is seen
 * after all stores of the process that has gone.
 *
 * What must hold: bytes arrive once, in order, none is missing at the end;
 * counters never break the rules of segment.h; and whatever happens both
 * processes come to their end. Nothing in here repeats itself without an event,
 * so a lost wake-up is a state without a successor (an "invalid end state"),
 * and a livelock would be a cycle (pan -l finds none).
 *
 * Each of these takes one thing away, and must be found out:
 *   NO_FENCE_SLEEPER, NO_FENCE_WAKER  the fences of Dekker's protocol
 *   NO_LOOK       look again after the wait word was stored
 *   NO_FRESH      a new number for each time that one sleeps
 *   NO_RELEASE    head is stored after the bytes
 *   NO_ACQUIRE    bytes are loaded after head
 *   HEAD_FIRST    state is loaded before the last head
 *   NO_HANGUP     a sleeper is woken by the peer's death
 */
#ifndef SENDS
#define SENDS 4
#endif
#define RING 2
#define CAP 1
#define BUF 3

#define OPEN 0
#define CLOSED 1

#define A 0
#define B 1

/* Words of shared memory. */
#define HEAD 0		/* written by A */
#define STATE_A 1
#define TX_WAIT 2
#define DATA 3		/* RING of them */
#define TAIL 5		/* written by B */
#define STATE_B 6
#define RX_WAIT 7
#define WORDS 8

byte mem[WORDS];
byte n[2];			/* entries in the buffers, oldest first */
byte word[6], value[6];		/* 2 * BUF */
bit rel[6];
byte bell[2];			/* bytes that wait for A and B */
bit gone[2];			/* what the other one sees as a hang-up */
bit kill_a;
bit died_a, stopped_b;		/* how they ended */
byte received;

inline store(me, w, v, release)
{
	d_step {
		n[me] < BUF;
		word[me * BUF + n[me]] = w;
		value[me * BUF + n[me]] = v;
		rel[me * BUF + n[me]] = release;
		n[me]++
	}
}

inline fence(me)
{
	n[me] == 0
}

/* Entry i of the buffer becomes visible. */
inline land(me, i)
{
	mem[word[me * BUF + i]] = value[me * BUF + i];
	j = i;
	do
	:: j + 1 < n[me] ->
		word[me * BUF + j] = word[me * BUF + j + 1];
		value[me * BUF + j] = value[me * BUF + j + 1];
		rel[me * BUF + j] = rel[me * BUF + j + 1];
		j++
	:: else -> break
	od;
	n[me]--;
	word[me * BUF + n[me]] = 0;
	value[me * BUF + n[me]] = 0;
	rel[me * BUF + n[me]] = 0;
	j = 0
}

proctype memory(byte me)
{
	byte j;

end:	do
	:: d_step { n[me] > 0 -> land(me, 0) }
	:: d_step { n[me] > 1 && !rel[me * BUF + 1] &&
		    word[me * BUF + 1] != word[me * BUF] -> land(me, 1) }
	:: d_step { n[me] > 2 && !rel[me * BUF + 2] &&
		    word[me * BUF + 2] != word[me * BUF] &&
		    word[me * BUF + 2] != word[me * BUF + 1] -> land(me, 2) }
	od
}

inline ring(whom)
{
	if
	:: d_step { bell[whom] < CAP -> bell[whom]++ }
	:: d_step { bell[whom] == CAP -> skip }
	fi
}

/* pl_lane_ring_if_waiting */
inline ring_if_waiting(me, whom, wait_word)
{
#ifndef NO_FENCE_WAKER
	fence(me);
#endif
	no = mem[wait_word];
	if
	:: no && no != rung -> rung = no; ring(whom)
	:: else
	fi;
	no = 0
}

/* pl_lane_raise, then the descriptor is closed */
inline raise_and_close(me, whom, state_word, wait_word)
{
	store(me, state_word, CLOSED, 1);
	fence(me);
	if
	:: mem[wait_word] -> ring(whom)
	:: else
	fi;
	gone[me] = 1
}

inline arm(me, wait_word)
{
#ifdef NO_FRESH
	wait_no = 1;
#else
	wait_no++;
#endif
	store(me, wait_word, wait_no, 0);
#ifndef NO_FENCE_SLEEPER
	fence(me)
#endif
}

/* poll_bell: until there is a byte or a hang-up */
inline poll_bell(me, other)
{
#ifdef NO_HANGUP
	bell[me] > 0;
#else
	bell[me] > 0 || gone[other];
#endif
	if
	:: d_step { bell[me] > 0 -> bell[me] = 0 }
	:: d_step { bell[me] == 0 -> skip }
	fi;
	hung_up = gone[other]
}

/* --- the sending process -------------------------------------------------- */

/* pl_tx_look: space, or no use of it */
inline tx_look()
{
	if
	:: hung_up || mem[STATE_B] == CLOSED -> broken = 1; got = 1
	:: else ->
		no = mem[TAIL];
		assert(no >= tail && no <= head);
		tail = no;
		no = 0;
		got = (head - tail < RING)
	fi
}

proctype sender()
{
	byte head, tail, rung, wait_no, no;
	bit hung_up, broken, got;

	{
		do
		:: head < SENDS && !broken ->
			tx_look();
			do
			:: !got ->
				arm(A, TX_WAIT);
#ifndef NO_LOOK
				tx_look();
#endif
				if
				:: !got -> poll_bell(A, B); tx_look()
				:: else
				fi;
				store(A, TX_WAIT, 0, 0)
			:: else -> break
			od;
			if
			:: broken -> break
			:: else
			fi;
			store(A, DATA + head % RING, head + 1, 0);
			head++;
#ifdef NO_RELEASE
			store(A, HEAD, head, 0);
#else
			store(A, HEAD, head, 1);
#endif
			ring_if_waiting(A, B, RX_WAIT)
		:: else -> break
		od;
		assert(broken || head == SENDS);
		assert(!broken || gone[B] || mem[STATE_B] == CLOSED);
		raise_and_close(A, B, STATE_A, RX_WAIT)
	} unless {
		kill_a && !gone[A];
		fence(A);
		died_a = 1;
		gone[A] = 1
	}
}

/* --- the receiving process ------------------------------------------------ */

/* pl_rx_refresh */
inline rx_refresh()
{
	no = mem[HEAD];
	assert(no >= head && no - tail <= RING);
	head = no;
	no = 0
}

/* pl_rx_look and rx_finish */
inline rx_look()
{
	rx_refresh();
	if
	:: head != tail -> got = 1
	:: else ->
		was_gone = hung_up;
		state = mem[STATE_A];
		if
		:: state == OPEN && !was_gone -> got = 0
		:: else ->
#ifndef HEAD_FIRST
			rx_refresh();
#endif
			ended = 1;
			got = 1
		fi;
		state = 0;
		was_gone = 0
	fi
}

proctype receiver()
{
	byte head, tail, rung, wait_no, no, state, early;
	bit hung_up, was_gone, ended, got;

	do
	:: early = mem[DATA + tail % RING];
		if
		:: !ended -> rx_look()
		:: else -> got = 1
		fi;
		do
		:: !got ->
			arm(B, RX_WAIT);
#ifndef NO_LOOK
			rx_look();
#endif
			if
			:: !got -> poll_bell(B, A); rx_look()
			:: else
			fi;
			store(B, RX_WAIT, 0, 0)
		:: else -> break
		od;
		if
		:: head == tail -> early = 0; break
		:: else
		fi;
#ifndef NO_ACQUIRE
		early = mem[DATA + tail % RING];
#endif
		assert(early == tail + 1);
		early = 0;
		tail++;
		store(B, TAIL, tail, 1);
		ring_if_waiting(B, A, TX_WAIT)
	:: tail > 0 && !ended -> stopped_b = 1; break
	od;
	assert(stopped_b || ended);
	assert(stopped_b || died_a || tail == SENDS);
	assert(stopped_b || tail == mem[HEAD]);
	received = tail;
	raise_and_close(B, A, STATE_B, TX_WAIT)
}

init {
	atomic {
		run memory(A);
		run memory(B);
		run sender();
		run receiver()
	}
#ifdef KILL
	kill_a = 1
#endif
}
