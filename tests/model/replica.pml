/* The protocol of replicated parameter servers: src/dist/ps_view.h (who is primary) and src/dist/ps_replica.h (what the
 * members do with it), checked by spin over all orders of events up to the limits below.
 *
 * Two members, an arbiter, and workers that want updates. Whatever is on its way may be delayed; any member, and the
 * arbiter, may be taken for silent at any time, whether it is or not; members die and start again, connections break, and
 * the arbiter dies and starts again with what it has on disk.
 *
 * What is claimed: an answer is only ever given by who has every update that was answered before, and none else (the
 * assertions in `answer`). A second primary that answered, or a backup that took over without an update, would break it. When all lives in the view
 * have ended the count begins anew: the workers go back to a checkpoint.
 *
 *   spin -a -DDEATHS=1 -DUPDATES=2 -DTERMS=3 -DBREAKS=0 tests/model/replica.pml
 *   cc -O2 -DSAFETY -DCOLLAPSE -o pan pan.c && ./pan -m400000
 *
 * It takes minutes and some gigabytes even with these limits, so no test runs it. */

#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef UPDATES
#define UPDATES 3
#endif
#ifndef TERMS
#define TERMS 6
#endif
#ifndef BREAKS
#define BREAKS 1
#endif
#define NONE 2

mtype = { BLANK, PRIMARY, BACKUP };

/* members */
mtype role[2];
byte life[2], term[2];
byte has[2], log[2]; /* how many updates it has, and which: the last is the lowest digit */
byte link[2];   /* of a primary: the life its records go to; 0: none */
byte sent[2], acked[2];
byte awaits[2]; /* of a primary: the life without which it answers nothing; 0: none */
byte since[2];
bool cut[2], pending[2], left_out[2];
byte source[2]; /* of a backup: the life that fills it; 0: its connection has ended */
bool named[2];
byte target[2]; /* of a primary: life to fill */

/* records and confirmations on their way: from whom, to whom, how many updates the receiver then has, and which */
chan records = [2] of { byte, byte, byte, byte };
chan acks = [2] of { byte, bool }; /* to which life; taken */

/* the arbiter: the view on disk, and what it has heard */
bool v_anew;
byte v_term, v_primary = NONE, v_life, v_backup = NONE, v_backup_life;
bool heard[2];
mtype s_role[2];
byte s_life[2], s_term[2], s_awaits[2];
bool s_cut[2];
/* orders under way, and answers to them */
chan orders[2] = [1] of { byte, byte, byte, byte, byte, byte, bool };
chan answers[2] = [1] of { byte, byte, byte, bool, mtype };

byte lives = 2, answered, truth, deaths, breaks, made; /* truth: the updates that were answered */
#define POWER(n) (n == 0 -> 1 : (n == 1 -> 4 : (n == 2 -> 16 : 64)))

/* used within one atomic sequence only, and 0 in between: no states of their own */
byte t, p, pl, b, bl, f, from, to, value, which, at, l, a;
byte good, c, serves, follows;
mtype r;

inline clear() {
  t = 0; p = 0; pl = 0; b = 0; bl = 0; f = 0; from = 0; to = 0; value = 0; which = 0; at = 0; l = 0; a = 0;
  good = 0; c = 0; serves = 0; follows = 0; r = 0
}

inline drop(who) {
  role[who] = BLANK; has[who] = 0; log[who] = 0; link[who] = 0; sent[who] = 0; acked[who] = 0; awaits[who] = 0; since[who] = 0;
  cut[who] = false; pending[who] = false; left_out[who] = false; source[who] = 0; named[who] = false; target[who] = 0;
}

inline new_life(one) { lives++; life[one] = lives; drop(one) }

inline lose_link(from_whom) {
  link[from_whom] = 0; sent[from_whom] = 0; acked[from_whom] = 0;
  cut[from_whom] = awaits[from_whom] != 0
}

/* ---- a member */

inline take_view(me, in_term, first, first_life, second, second_life) {
  if
  :: in_term >= term[me] && in_term > 0 && !left_out[me] ->
     term[me] = in_term;
     if
     :: role[me] == PRIMARY && !(first == me && first_life == life[me]) -> left_out[me] = true
     :: role[me] == BLANK && first == me && first_life == life[me] -> role[me] = PRIMARY
     :: role[me] == BACKUP && first == me && first_life == life[me] && c -> left_out[me] = true
     :: role[me] == BACKUP && first == me && first_life == life[me] && !c ->
        role[me] = PRIMARY; source[me] = 0;
        pending[me] = has[me] > answered /* its worker comes back for the answer */
     :: else
     fi;
     if
     :: role[me] == BACKUP && !(second == me && second_life == life[me]) && (named[me] || source[me] == 0) -> left_out[me] = true
     :: else
     fi;
     named[me] = role[me] == BACKUP && second == me && second_life == life[me];
     if
     :: role[me] == PRIMARY && awaits[me] != 0 && second == NONE && in_term > since[me] ->
        awaits[me] = 0; cut[me] = false; link[me] = 0; sent[me] = 0; acked[me] = 0
     :: else
     fi
  :: else
  fi
}

proctype member(byte m) {
end:
  do
  :: atomic { left_out[m] -> new_life(m) }
  :: atomic { /* an order comes */
       !left_out[m] && nempty(orders[m]) ->
       orders[m]?t, p, pl, b, bl, f, c;
       take_view(m, t, p, pl, b, bl);
       target[m] = f;
       clear()
     }
  :: atomic { /* it tells how it is, if that is new */
       !left_out[m] && empty(answers[m]) &&
         (!heard[m] || s_life[m] != life[m] || s_term[m] != term[m] || s_awaits[m] != awaits[m] || s_cut[m] != cut[m] ||
          s_role[m] != role[m]) ->
       answers[m]!life[m], term[m], awaits[m], cut[m], role[m]
     }
  :: atomic { /* a worker's update: done here, and sent to the backup */
       !left_out[m] && role[m] == PRIMARY && !pending[m] && made < UPDATES &&
         (link[m] == 0 || nfull(records)) ->
       made++;
       has[m]++;
       log[m] = log[m] * 4 + made;
       pending[m] = true;
       if
       :: link[m] != 0 -> records!life[m], link[m], has[m], log[m]; sent[m]++
       :: else
       fi
     }
  :: atomic { /* answer */
       !left_out[m] && role[m] == PRIMARY && pending[m] && (awaits[m] == 0 || (!cut[m] && acked[m] == sent[m])) ->
       if
       :: has[m] > answered ->
          assert(has[m] == answered + 1 && log[m] / 4 == truth);
          answered++;
          truth = log[m]
       :: else -> assert(log[m] == truth / POWER(answered - has[m])) /* once more, by who was replaced: nobody hears it */
       fi;
       pending[m] = false
     }
  :: atomic { /* fills a backup: all that it holds, at once */
       !left_out[m] && role[m] == PRIMARY && link[m] == 0 && awaits[m] == 0 && target[m] != 0 && nfull(records) ->
       link[m] = target[m]; sent[m] = 1; acked[m] = 0;
       records!life[m], link[m], has[m], log[m]
     }
  :: atomic { /* it has everything: from now on answers wait for it */
       !left_out[m] && role[m] == PRIMARY && link[m] != 0 && awaits[m] == 0 && acked[m] == sent[m] ->
       awaits[m] = link[m]; since[m] = term[m]
     }
  :: atomic { /* a record comes; one for another life, or of another source, is refused */
       nempty(records) && records?[from, eval(life[m]), value, which] && nfull(acks) ->
       records?from, to, value, which;
       if
       :: !left_out[m] && role[m] == BLANK -> role[m] = BACKUP; source[m] = from; has[m] = value; log[m] = which; acks!from, true
       :: !left_out[m] && role[m] == BACKUP && source[m] == from -> has[m] = value; log[m] = which; acks!from, true
       :: else -> acks!from, false
       fi;
       clear()
     }
  :: atomic { /* a confirmation */
       nempty(acks) && acks?[eval(life[m]), good] ->
       acks?to, good;
       if
       :: link[m] != 0 && good -> acked[m]++
       :: link[m] != 0 && !good -> lose_link(m)
       :: else
       fi;
       clear()
     }
  :: atomic { /* the connection to the backup breaks; what was on its way is lost */
       link[m] != 0 && breaks < BREAKS ->
       breaks++;
       do
       :: nempty(records) -> records?from, to, value, which
       :: empty(records) -> break
       od;
       do
       :: nempty(acks) -> acks?to, good
       :: empty(acks) -> break
       od;
       if
       :: source[1 - m] == life[m] -> source[1 - m] = 0
       :: else
       fi;
       lose_link(m);
       clear()
     }
  :: atomic { /* death: what is on its way to it or from it is lost */
       deaths < DEATHS ->
       deaths++;
       do
       :: nempty(records) -> records?from, to, value, which
       :: empty(records) -> break
       od;
       do
       :: nempty(acks) -> acks?to, good
       :: empty(acks) -> break
       od;
       if
       :: source[1 - m] == life[m] -> source[1 - m] = 0
       :: else
       fi;
       if
       :: link[1 - m] == life[m] -> lose_link(1 - m)
       :: else
       fi;
       new_life(m);
       clear()
     }
  od
}

/* ---- the arbiter: ps_view_next. Whoever was heard may be taken for silent. */

#define ALIVE(m, l) (heard[m] && s_life[m] == l)
#define ENDED(m, l) (heard[m] && s_life[m] != l)
#define OTHER (1 - v_primary)
/* the life that member m is to fill */
#define FILL(m) (v_backup == NONE && v_primary == m && heard[1 - m] -> s_life[1 - m] : 0)
byte told[2], filled_by[2]; /* what each was told last */

inline next_view(first, first_life, second, second_life) {
  v_term++;
  v_anew = false;
  v_primary = first; v_life = first_life; v_backup = second; v_backup_life = second_life
}

active proctype arbiter() {
end:
  do
  :: atomic { nempty(answers[0]) -> answers[0]?l, t, a, c, r;
       heard[0] = true; s_life[0] = l; s_term[0] = t; s_awaits[0] = a; s_cut[0] = c; s_role[0] = r; clear() }
  :: atomic { nempty(answers[1]) -> answers[1]?l, t, a, c, r;
       heard[1] = true; s_life[1] = l; s_term[1] = t; s_awaits[1] = a; s_cut[1] = c; s_role[1] = r; clear() }
  :: atomic { /* tells a member of the view */
       (empty(orders[0]) && (told[0] != v_term || filled_by[0] != FILL(0))) ||
         (empty(orders[1]) && (told[1] != v_term || filled_by[1] != FILL(1))) ->
       if
       :: empty(orders[0]) && (told[0] != v_term || filled_by[0] != FILL(0)) -> at = 0
       :: empty(orders[1]) && (told[1] != v_term || filled_by[1] != FILL(1)) -> at = 1
       fi;
       told[at] = v_term; filled_by[at] = FILL(at);
       orders[at]!v_term, v_primary, v_life, v_backup, v_backup_life, filled_by[at], v_anew;
       clear()
     }
  :: atomic { v_term == 0 && ((heard[0] && s_role[0] == BLANK) || (heard[1] && s_role[1] == BLANK)) ->
       if
       :: heard[0] && s_role[0] == BLANK -> next_view(0, s_life[0], NONE, 0); v_anew = true
       :: heard[1] && s_role[1] == BLANK -> next_view(1, s_life[1], NONE, 0); v_anew = true
       fi
     }
  :: atomic { v_term > 0 && v_term < TERMS ->
       serves = ALIVE(v_primary, v_life);
       follows = false;
       if
       :: v_backup != NONE -> follows = ALIVE(v_backup, v_backup_life)
       :: else
       fi;
       if
       :: serves -> skip
       :: serves -> serves = false /* taken for silent */
       :: !serves
       fi;
       if
       :: follows -> skip
       :: follows -> follows = false
       :: !follows
       fi;
       if
       :: !serves && follows -> next_view(v_backup, v_backup_life, NONE, 0)
       :: serves && v_backup != NONE && (!follows || (s_term[v_primary] == v_term && s_cut[v_primary])) ->
          next_view(v_primary, v_life, NONE, 0)
       :: serves && v_backup == NONE && s_term[v_primary] == v_term && s_awaits[v_primary] != 0 ->
          if
          :: ALIVE(OTHER, s_awaits[v_primary]) && !s_cut[v_primary] ->
             next_view(v_primary, v_life, OTHER, s_awaits[v_primary])
          :: next_view(v_primary, v_life, NONE, 0)
          fi
       :: ENDED(v_primary, v_life) && (v_backup == NONE || ENDED(v_backup, v_backup_life)) ->
          if
          :: heard[0] && s_role[0] == BLANK -> next_view(0, s_life[0], NONE, 0); v_anew = true; answered = 0; truth = 0
          :: heard[1] && s_role[1] == BLANK -> next_view(1, s_life[1], NONE, 0); v_anew = true; answered = 0; truth = 0
          :: else
          fi
       :: else
       fi;
       clear()
     }
  :: atomic { /* it dies, and is started again: it knows what is on disk */
       deaths < DEATHS ->
       deaths++;
       heard[0] = false; heard[1] = false; told[0] = 0; told[1] = 0; filled_by[0] = 0; filled_by[1] = 0;
       do
       :: nempty(orders[0]) -> orders[0]?t, _, _, _, _, _, _
       :: nempty(orders[1]) -> orders[1]?t, _, _, _, _, _, _
       :: nempty(answers[0]) -> answers[0]?l, _, _, _, _
       :: nempty(answers[1]) -> answers[1]?l, _, _, _, _
       :: empty(orders[0]) && empty(orders[1]) && empty(answers[0]) && empty(answers[1]) -> break
       od;
       clear()
     }
  od
}

init {
  atomic {
    life[0] = 1; life[1] = 2;
    drop(0); drop(1);
    run member(0);
    run member(1)
  }
}
