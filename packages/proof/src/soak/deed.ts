import type { Piece } from './content.ts'

/**
 * One thing that a turn does. Each is atomic, also on the disk after a kill. Paths are relative to the session's
 * `files/`.
 */
export type Deed =
  | { do: 'say'; text: string }
  | { do: 'write'; path: string; piece: Piece }
  | { do: 'append'; path: string; piece: Piece }
  | { do: 'delete'; path: string }
  | { do: 'unlink'; path: string }
  | { do: 'rename'; path: string; to: string }
  | { do: 'chmod'; path: string; mode: number }
  | { do: 'link'; path: string; target: string }
  | { do: 'make-dir'; path: string }
  | { do: 'remove-dir'; path: string }
  | { do: 'put-row'; id: string; text: string }
  | { do: 'delete-row'; id: string }
  | { do: 'put-value'; key: string; text: string }
  | { do: 'put-blob'; piece: Piece; mediaType: string }

export interface Turn {
  /** Unique in the session's life. */
  id: string
  deeds: Deed[]
}
