import { decodeChunk } from '../format/bytes/chunk.ts'
import { MAX_CHUNK_BYTES } from '../format/bytes/limits.ts'
import type { FileFields, FileRecord } from '../store/file-record.ts'
import type { LoadedTree, LoadOptions } from '../store/read/load-tree.ts'
import type { TreeDraft } from '../store/write/tree-draft.ts'
import { chunksOf } from '../history/salvage.ts'

/** Stores the files of a tree once more, each chunk once and verified: the draft refers to nothing that was there. */
export async function copyTree(draft: TreeDraft, loaded: LoadedTree, loading: LoadOptions): Promise<void> {
  const { state, reader } = loaded
  const copies = new Map<number, number>()
  const scratch = Buffer.allocUnsafe(MAX_CHUNK_BYTES)
  await reader.read(
    chunksOf(loaded),
    async (chunk, stored, range) => {
      if (loading.slices.due) await loading.slices.pause()
      const { id, digest, codec, rawLength } = chunk
      decodeChunk(stored, chunk, range, { into: scratch, rawLength })
      // The piece that it came in is larger, and not to be held for it.
      copies.set(id, draft.known(digest) ?? (await draft.add({ digest, codec, stored: Buffer.from(stored) })))
    },
    loading,
  )
  for (const path of state.paths) {
    if (loading.slices.due) await loading.slices.pause()
    const file = state.files[path]
    if (file === undefined) continue
    const chunks = file.chunks.map((id) => copies.get(id) as number)
    draft.setFile(path, { ...fieldsOf(file), chunks }, undefined)
  }
}

/** What a file is besides its content. */
export function fieldsOf({ mode, mtimeNs, size, chunkSize }: FileRecord): Omit<FileFields, 'chunks'> {
  return { mode, mtimeNs, size, chunkSize }
}
