/*
 * tests/model/bell.pml - two threads of one end share a doorbell
 *
 * What is modelled: one end of a lane, A, with a receiving thread R and a
 * sending thread S, and its peer B. lane.pml has what happens between the ends;
 * here memory is as the program says, and B never sleeps. What is at stake is
 * within A: there is one doorbell, and whoever drains it may take a byte that
 * was meant for the other thread (lane_wait.c: bell_take, bell_give, doze,
 * sleep_once).
 *
 * With -DFD the receiving thread does not sleep in a call: it waits for the
 * descriptor of lane_fd.c (the doorbell, or the event descriptor) and then
 * receives without waiting, one byte at a time, while S sleeps as before.
 *
 * What must hold: R gets all that B sent, S sends all that it has; whoever
 * sleeps for ever is a state without a successor.
 *
 * Each of these takes one thing away, and must be found out:
 *   NO_TURN      nobody goes to sleep whose byte may have been drained
 *   NO_WAKE      who did not get the doorbell is woken when it is free
 *   NO_SIGNAL    (FD) a sender that drains signals in the receiver's place
 *   ONLY_DATA    (FD) ... also when there is nothing to read: the byte was for
 *                a number that the peer will not ring for again
 *   NO_AGAIN     (FD) a signal that was announced and is not there yet is kept
 *   NO_PARTIAL   (FD) a receiver that leaves bytes signals itself
 */
#ifndef COUNT
#define COUNT 2
#endif
#define RING 1
#define CAP 1
/* Nobody arms so often unless two threads wake each other for nothing. */
#define ARMS 16

#define PL_IN 0
#define PL_OUT 1

#define FREE 0
#define TAKEN 1
#define WAITED 2

/* What B shows. */
byte b_head, b_tail;
/* What A shows. */
byte a_head, a_tail;
byte rx_wait, tx_wait;

byte bell;			/* bytes in A's doorbell */
byte taken;			/* bell_taken */
byte turn;			/* moves when bytes are drained */
bit asleep[2];			/* in the futex */
bit signalled, event_fd;

/* --- the peer ------------------------------------------------------------- */

inline ring()
{
	bell = (bell < CAP -> bell + 1 : bell)
}

/* What A sends is taken, what B has is sent, in any order. */
proctype peer()
{
	byte rung_rx, rung_tx, no;

	do
	:: b_head < COUNT && b_head - a_tail < COUNT ->
		b_head++;
		d_step {
			no = rx_wait;
			if
			:: no && no != rung_rx -> rung_rx = no; ring()
			:: else
			fi;
			no = 0
		}
	:: b_tail < a_head ->
		b_tail++;
		d_step {
			no = tx_wait;
			if
			:: no && no != rung_tx -> rung_tx = no; ring()
			:: else
			fi;
			no = 0
		}
	:: b_head == COUNT && b_tail == COUNT -> break
	od
}

/* --- this end ------------------------------------------------------------- */

/* bell_give */
inline give(any)
{
#ifndef NO_TURN
	turn = turn + any;
#endif
	d_step { was = taken; taken = FREE }
	if
#ifndef NO_WAKE
	:: was == WAITED -> d_step { asleep[PL_IN] = 0; asleep[PL_OUT] = 0 }
#endif
	:: else
	fi;
	was = 0
}

/* bell_try */
inline try()
{
	d_step { was = taken; taken = (was == FREE -> TAKEN : was) }
}

/* bell_wait: woken when it is given, or had at once */
inline bell_wait(me)
{
	d_step { was = taken; taken = WAITED }
	if
	:: was == FREE
	:: else ->
		if
		:: d_step { taken == WAITED -> asleep[me] = 1 }
			!asleep[me]
		:: d_step { taken != WAITED -> skip }
		fi
	fi
}

/* doze */
inline doze(me, my_turn)
{
	try();
	if
	:: was != FREE -> bell_wait(me)
	:: else
	fi;
	if
	:: was == FREE ->
		any = 0;
		if
		:: turn == my_turn ->
			bell > 0;
			d_step { bell = 0; any = 1 }
#ifdef FD
			drained(me)
#endif
		:: turn != my_turn
		fi;
		give(any);
		any = 0
	:: else
	fi;
	was = 0
}

inline signal()
{
	d_step { was_set = signalled; signalled = 1 }
	if
	:: !was_set -> event_fd = 1
	:: else
	fi;
	was_set = 0
}

/* poll_bell, by the thread that only sends: the byte may have been for R */
inline drained(me)
{
	if
#ifndef NO_SIGNAL
#ifdef ONLY_DATA
	:: me == PL_OUT && b_head != a_tail -> signal()
#else
	:: me == PL_OUT -> signal()
#endif
#endif
	:: else
	fi
}

proctype sender()
{
	byte my_turn, no;
	byte was;
	bit was_set, any;

	do
	:: a_head < COUNT ->
		do
		:: a_head - b_tail < RING -> break
		:: else ->
			my_turn = turn;
			no++;
			assert(no < ARMS);
			tx_wait = no;
			if
			:: a_head - b_tail < RING
			:: else -> doze(PL_OUT, my_turn)
			fi;
			tx_wait = 0
		od;
		a_head++
	:: else -> break
	od
}

#ifndef FD
proctype receiver()
{
	byte my_turn, no;
	byte was;
	bit any;

	do
	:: a_tail < COUNT ->
		do
		:: b_head != a_tail -> break
		:: else ->
			my_turn = turn;
			no++;
			assert(no < ARMS);
			rx_wait = no;
			if
			:: b_head != a_tail
			:: else -> doze(PL_IN, my_turn)
			fi;
			rx_wait = 0
		od;
		a_tail++
	:: else -> break
	od
}
#else
/* pl_lane_fd_update */
inline update()
{
	if
	:: head == a_tail ->
		/* unsignal */
		if
		:: signalled ->
			d_step { was_set = event_fd; event_fd = 0 }
#ifdef NO_AGAIN
			was_set = 1;
#endif
			if
			:: was_set -> signalled = 0; rung = 1
			:: else
			fi;
			was_set = 0
		:: else
		fi;
		/* pl_lane_drain */
		try();
		if
		:: was == FREE ->
			d_step { any = bell > 0; bell = 0 }
			give(any);
			rung = rung || any;
			any = 0
		:: else -> was = 0
		fi;
		if
		:: !armed || rung || head != armed_head ->
			no++;
			assert(no < ARMS);
			rx_wait = no;
			armed = 1;
			armed_head = head
		:: else
		fi;
		rung = 0;
		head = b_head
	:: else
	fi;
	if
	:: head != a_tail ->
#ifndef NO_PARTIAL
		signal();
#endif
		rx_wait = 0;
		armed = 0;
		armed_head = 0
	:: else
	fi
}

proctype receiver()
{
	byte no, head, armed_head;
	byte was;
	bit was_set, any, armed, rung;

	update();
	do
	:: a_tail < COUNT ->
		/* epoll_wait */
		bell > 0 || event_fd;
		/* pl_lane_recv of one byte, PL_DONTWAIT */
		if
		:: head == a_tail -> head = b_head
		:: else
		fi;
		if
		:: head != a_tail -> a_tail++
		:: else
		fi;
		update()
	:: else -> break
	od
}
#endif

init {
	atomic {
		run peer();
		run sender();
		run receiver()
	}
}
