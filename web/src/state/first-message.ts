/** Sends the first message of a new session, with the files that were attached in the form. */

import { effect } from '@preact/signals';
import { getMessageDraft, NEW_SESSION, updateMessageDraft } from './drafts.ts';
import { getOwn } from './get-own.ts';
import { outbox } from './hub-client.ts';
import { summaries } from './store.ts';
import { forgetMissingFiles, getUploads, moveFiles, sessionsAwaitingUploads, startUpload, takeAttachments } from './uploads.ts';

/** The longest wait for the session's CLI. Afterwards the uploads start anyway, and fail with the hub's reason. */
const MAX_CONNECT_MS = 30_000;

/**
 * Sends the task of the form. Without files, the outbox stores the task before the draft is deleted, and sends the task when the hub can
 * be reached. With files, the task is the draft of the session until all files are uploaded. If an upload fails or the page is closed, the
 * task stays in the composer, which names the files.
 */
export async function sendFirstMessage(sessionId: string): Promise<void> {
  const text = getMessageDraft(NEW_SESSION).text.trim();
  const hasFiles = getUploads(NEW_SESSION).length > 0;
  if (hasFiles) {
    updateMessageDraft(sessionId, { text });
    moveFiles(sessionId);
  } else if (text !== '') void outbox.send(sessionId, text, []);
  updateMessageDraft(NEW_SESSION, { text: '' });
  forgetMissingFiles(NEW_SESSION);
  if (hasFiles) await sendWithFiles(sessionId);
}

async function sendWithFiles(sessionId: string): Promise<void> {
  const setSending = (isSending: boolean) => {
    const others = [...sessionsAwaitingUploads.value].filter((id) => id !== sessionId);
    sessionsAwaitingUploads.value = new Set(isSending ? [...others, sessionId] : others);
  };
  setSending(true);
  await waitUntilActive(sessionId);
  await Promise.all(
    getUploads(sessionId)
      .filter(({ status }) => status === 'unstarted')
      .map((file) => startUpload(sessionId, file)),
  );
  setSending(false);
  const files = getUploads(sessionId);
  if (files.length === 0 || files.some(({ status }) => status !== 'done')) return;
  void outbox.send(sessionId, getMessageDraft(sessionId).text.trim(), takeAttachments(sessionId));
  updateMessageDraft(sessionId, { text: '' });
  forgetMissingFiles(sessionId);
}

/** Waits until the session's CLI is connected, because files are uploaded to the CLI's machine. */
function waitUntilActive(sessionId: string): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => end(), MAX_CONNECT_MS);
    let isEnded = false;
    let stop = () => {};
    const end = () => {
      isEnded = true;
      clearTimeout(timer);
      stop();
      resolve();
    };
    stop = effect(() => {
      if (!isEnded && getOwn(summaries.value, sessionId)?.active) end();
    });
    if (isEnded) stop();
  });
}
