/** The messages that wait for the agent, above the composer. They can be edited, moved, canceled, and sent at once. */

import './queued-messages.css';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { Message, Session } from '../api/types.ts';
import { moveBy, queueOf } from '../content/queue.ts';
import { messageParts } from '../content/search-text.ts';
import * as actions from '../state/actions.ts';
import { getMessageDraft, updateMessageDraft } from '../state/drafts.ts';
import { getOwn } from '../state/get-own.ts';
import { useSelector } from '../state/use-selector.ts';
import { hasKeyboard } from '../ui/device.ts';
import { showToast, tryOrToast } from '../ui/toasts.tsx';
import { type QueuedMessage, QueuedRow } from './queued-row.tsx';

const NO_MESSAGES: Message[] = [];

export function QueuedMessages({ session }: { session: Session }) {
  const { id, active, mode, metadata, agentState } = session;
  const queue = queueOf(agentState);
  const seqs = queue?.seqs ?? [];
  const loaded = useMessages(id, seqs);
  const list = useRef<HTMLOListElement>(null);
  // The order that the user has chosen, until the agent confirms the order.
  const [chosen, setChosen] = useState<number[] | null>(null);
  const [dragged, setDragged] = useState<number | null>(null);
  const [openSeq, setOpenSeq] = useState<number | null>(null);
  const [edit, setEdit] = useState<{ seq: number; text: string; isChanged: boolean } | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [announcement, setAnnouncement] = useState('');
  const movedSeq = useRef<number | null>(null);
  const focused = useRef<{ seq: number; index: number } | null>(null);

  useEffect(() => setChosen(null), [seqs.join()]);
  // A moved element loses the focus.
  useLayoutEffect(() => {
    if (movedSeq.current !== null) list.current?.querySelector<HTMLElement>(`[data-seq="${movedSeq.current}"] .queued-handle`)?.focus();
    movedSeq.current = null;
    if (focused.current === null || seqs.includes(focused.current.seq)) return;
    // The message has left the queue with the focus.
    if (document.activeElement === document.body) focusRow(list.current, focused.current.index);
    focused.current = null;
  });
  useEffect(() => {
    if (!edit || seqs.includes(edit.seq)) return;
    setEdit(null);
    if (!edit.isChanged) return;
    const isComposerEmpty = getMessageDraft(id).text === '';
    if (isComposerEmpty) updateMessageDraft(id, { text: edit.text });
    showToast({
      title: 'The message already runs, or was canceled',
      text: isComposerEmpty ? 'Your text is in the composer.' : `Your text was: ${edit.text}`,
    });
  }, [seqs.join()]);

  if (!queue) return null;
  const order = chosen?.length === seqs.length ? chosen : seqs;
  const messages = order.map((seq): QueuedMessage => toQueuedMessage(seq, loaded.get(seq), queue.texts[seq]));
  const host = metadata?.host || 'the machine';

  const run = async (title: string, operation: () => Promise<unknown>) => {
    setBusy(true);
    const isDone = await tryOrToast(title, operation);
    setBusy(false);
    return isDone;
  };
  const setOrder = async (newOrder: number[]) => {
    if (newOrder.join() === seqs.join()) return setChosen(null);
    setChosen(newOrder);
    if (!(await run('Could not move the message', () => actions.orderQueue(id, newOrder)))) setChosen(null);
  };
  const move = (seq: number, places: number) => {
    const newOrder = moveBy(order, seq, places);
    if (newOrder.join() === order.join()) return;
    movedSeq.current = seq;
    setAnnouncement(`Moved to place ${newOrder.indexOf(seq) + 1} of ${newOrder.length}`);
    void setOrder(newOrder);
  };
  const drag = (seq: number) => {
    let newOrder = order;
    setDragged(seq);
    setOpenSeq(null);
    const onMove = ({ clientY }: PointerEvent) => {
      const rows = [...(list.current?.children ?? [])] as HTMLElement[];
      const index = rows.filter((row) => clientY > row.getBoundingClientRect().top + row.offsetHeight / 2).length;
      const from = newOrder.indexOf(seq);
      newOrder = moveBy(newOrder, seq, (index > from ? index - 1 : index) - from);
      setChosen(newOrder);
    };
    const end = (event: Event) => {
      for (const name of ['pointerup', 'pointercancel', 'keydown']) document.removeEventListener(name, onEnd);
      document.removeEventListener('pointermove', onMove);
      setDragged(null);
      if (event.type === 'pointerup') void setOrder(newOrder);
      else setChosen(null);
    };
    const onEnd = (event: Event) => {
      if (!(event instanceof KeyboardEvent) || event.key === 'Escape') end(event);
    };
    document.addEventListener('pointermove', onMove);
    for (const name of ['pointerup', 'pointercancel', 'keydown']) document.addEventListener(name, onEnd);
  };
  const startEdit = async ({ seq, isWhole, text }: QueuedMessage) => {
    let current = text;
    if (!isWhole && !(await run('Could not load the message', async () => (current = textOf(await actions.fetchMessage(id, seq)))))) return;
    setEdit({ seq, text: current, isChanged: false });
  };
  const saveEdit = async () => {
    if (edit && (await run('Could not edit the message', () => actions.editQueued(id, edit.seq, edit.text)))) setEdit(null);
  };

  return (
    <section class="queue" aria-label="Queued messages">
      <p class="queue-title small muted">
        <strong>{messages.length} queued</strong>
        <span class="ellipsis">{active ? 'Stop also cancels them' : `Waiting for ${host}`}</span>
      </p>
      <ol
        role="list"
        class="queue-list"
        ref={list}
        onFocusIn={({ target }) => {
          const row = (target as HTMLElement).closest<HTMLElement>('.queued');
          if (row) focused.current = { seq: Number(row.dataset.seq), index: order.indexOf(Number(row.dataset.seq)) };
        }}
      >
        {messages.map((message, index) => {
          const { seq } = message;
          return (
            <QueuedRow
              key={seq}
              message={message}
              isActive={active}
              canSend={mode !== 'local'}
              canMove={messages.length > 1}
              steers={queue.steers}
              isFirst={index === 0}
              isLast={index === messages.length - 1}
              isBusy={isBusy}
              isDragged={dragged === seq}
              isOpen={openSeq === seq}
              editText={edit?.seq === seq ? edit.text : undefined}
              onToggle={() => setOpenSeq(openSeq === seq ? null : seq)}
              onDrag={() => drag(seq)}
              onMove={(places) => move(seq, places)}
              onSend={() => void run('Could not send the message', () => actions.sendQueued(id, seq))}
              onCancel={() => void run('Could not cancel the message', () => actions.cancelQueued(id, seq, message.text))}
              onEdit={() => void startEdit(message)}
              onEditInput={(text) => setEdit({ seq, text, isChanged: true })}
              onSave={() => void saveEdit()}
              onDiscard={() => setEdit(null)}
            />
          );
        })}
      </ol>
      <p class="visually-hidden" role="status">
        {announcement}
      </p>
    </section>
  );
}

/** Focuses the row at a place, the last row, or the composer if the queue is empty. On a phone, the composer would open the keyboard. */
function focusRow(list: HTMLElement | null, index: number): void {
  const rows = [...(list?.querySelectorAll<HTMLElement>('.queued-summary') ?? [])];
  const row = rows[index] ?? rows.at(-1);
  if (row) row.focus();
  else if (hasKeyboard.value) document.getElementById('composer')?.focus();
}

/** Returns the loaded messages by seq. Fetches the queued messages that the conversation has not loaded. */
function useMessages(id: string, seqs: number[]): Map<number, Message> {
  const messages = useSelector(({ conversations }) => getOwn(conversations, id)?.messages ?? NO_MESSAGES);
  const [fetched, setFetched] = useState<Message[]>([]);
  const known = new Map([...fetched, ...messages].map((message) => [message.seq, message]));
  const missing = messages.length > 0 ? seqs.filter((seq) => !known.has(seq)) : [];
  useEffect(() => {
    for (const seq of missing)
      actions.fetchMessage(id, seq).then(
        (message) => message && setFetched((others) => [...others.filter((other) => seqs.includes(other.seq)), message]),
        () => {},
      );
  }, [missing.join()]);
  return known;
}

function toQueuedMessage(seq: number, message: Message | undefined, edited: unknown): QueuedMessage {
  const isEdited = typeof edited === 'string';
  const part = message && messageParts(message).find(({ kind }) => kind === 'user');
  const files = part?.kind === 'user' ? part.attachments.map(({ filename }) => filename) : [];
  const isWhole = isEdited || (message !== undefined && 'content' in message);
  return { seq, text: isEdited ? edited : textOf(message), files, isEdited, isWhole };
}

function textOf(message: Message | undefined): string {
  const part = message && messageParts(message).find(({ kind }) => kind === 'user');
  return part?.kind === 'user' ? part.text : '';
}
