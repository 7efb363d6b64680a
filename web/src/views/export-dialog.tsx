/** The dialog that exports a session as a file. */

import './export-dialog.css';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Session } from '../api/types.ts';
import { exportFileName } from '../content/export-session.ts';
import { type ExportFormat, exportSession } from '../state/export-session.ts';
import { sessionDialog } from '../state/jump.ts';
import { sessionTitle } from '../state/sessions.ts';
import { DialogForm } from '../ui/dialog-form.tsx';
import { formatCount } from '../ui/format.ts';

const FORMATS: { format: ExportFormat; label: string; hint: string }[] = [
  { format: 'md', label: 'Markdown', hint: 'to read and to share' },
  { format: 'json', label: 'JSON', hint: 'complete, for programs' },
];

/** Some browsers read the file after the click. */
const REVOKE_DELAY_MS = 60_000;

function download(file: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(file);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), REVOKE_DELAY_MS);
}

export function ExportDialog({ session }: { session: Session }) {
  const [format, setFormat] = useState<ExportFormat>('md');
  const [progress, setProgress] = useState<{ written: number; total: number } | null>(null);
  const controller = useRef<AbortController | null>(null);
  useEffect(() => () => controller.current?.abort(), []);
  const exportAndDownload = async () => {
    const abort = new AbortController();
    controller.current = abort;
    setProgress({ written: 0, total: 0 });
    try {
      const file = await exportSession(session, format, abort.signal, (written, total) => setProgress({ written, total }));
      download(file, exportFileName(sessionTitle(session), new Date(), format));
    } finally {
      setProgress(null);
    }
  };
  const onClose = () => {
    sessionDialog.value = null;
  };
  return (
    <DialogForm
      title="Export this session"
      text="The file contains all messages, with what the agent has read and written."
      action="Export"
      onSubmit={exportAndDownload}
      onClose={onClose}
    >
      <fieldset class="export-formats" disabled={progress !== null}>
        <legend class="visually-hidden">Format</legend>
        {FORMATS.map(({ format: value, label, hint }) => (
          <label key={value}>
            <input type="radio" name="format" value={value} checked={format === value} onChange={() => setFormat(value)} />
            <span>
              {label} <span class="muted small">{hint}</span>
            </span>
          </label>
        ))}
      </fieldset>
      {progress && (
        <p role="status" class="small">
          <progress value={progress.written} max={Math.max(1, progress.total)} aria-label="Exported messages" />{' '}
          {formatCount(progress.written)} of {formatCount(progress.total)} messages
        </p>
      )}
    </DialogForm>
  );
}
