/** The files of a new session's first message. They are uploaded when the session is started. */

import { Paperclip } from 'lucide-preact';
import { useRef } from 'preact/hooks';
import { NEW_SESSION } from '../state/drafts.ts';
import { addFiles } from '../state/uploads.ts';
import { UploadList } from './upload-list.tsx';

export function TaskFiles() {
  const input = useRef<HTMLInputElement>(null);
  return (
    <div class="task-files">
      <UploadList sessionId={NEW_SESSION} />
      <button type="button" class="button" onClick={() => input.current?.click()}>
        <Paperclip size={16} /> Attach files
      </button>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        aria-label="Files"
        onChange={({ currentTarget }) => {
          addFiles(NEW_SESSION, currentTarget.files ?? []);
          currentTarget.value = '';
        }}
      />
    </div>
  );
}
