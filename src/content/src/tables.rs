//! Which tables hold data and which only lay out a page.
//!
//! What tells them apart is known from screen readers, which must: headings of columns, a caption, the role, how many rows
//! and columns there are, how much text a cell has, and whether tables stand in it.

use std::collections::HashSet;

use page::html::names;
use page::html::{Document, NodeId};

/// Letters of a cell beyond which it is a column of a page.
const CELL_WEIGHT_MAX: u32 = 600;
/// Columns beyond which nobody reads a table.
pub const COLUMNS_MAX: usize = 64;

#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    end: u32,
    rows: u32,
    /// Cells of the row that is being read, and of the longest one.
    cells_here: u32,
    columns: u32,
    headings: u32,
    /// Letters of the cell that is being read, and of the longest one.
    weight_here: u32,
    weight_max: u32,
    has_caption: bool,
    is_nesting: bool,
    is_presentation: bool,
}

impl Shape {
    fn end_cell(&mut self) {
        self.weight_max = self.weight_max.max(self.weight_here);
        self.weight_here = 0;
    }

    fn end_row(&mut self) {
        self.end_cell();
        self.columns = self.columns.max(self.cells_here);
        self.cells_here = 0;
    }

    fn holds_data(&self) -> bool {
        if self.is_presentation || self.is_nesting || self.weight_max > CELL_WEIGHT_MAX {
            return false;
        }
        let is_named = self.headings > 0 || self.has_caption;
        self.columns as usize <= COLUMNS_MAX && self.columns >= 2 && (self.rows >= 2 || is_named)
    }
}

/// The tables of a page.
#[derive(Debug, Default)]
pub struct Shapes {
    open: Vec<(u32, Shape)>,
    data: HashSet<u32>,
}

impl Shapes {
    fn close(&mut self, at: u32) {
        while let Some((table, shape)) = self.open.last_mut().filter(|(_, shape)| shape.end <= at) {
            shape.end_row();
            if shape.holds_data() {
                self.data.insert(*table);
            }
            self.open.pop();
        }
    }

    /// Tells of an element, in document order.
    pub fn element(&mut self, document: &Document, node: NodeId) {
        let name = document.name_id(node);
        if name == names::TABLE {
            self.close(node.0);
            if let Some((_, around)) = self.open.last_mut() {
                around.is_nesting = true;
            }
            let role = document.attribute(node, names::ROLE);
            let is_presentation = matches!(role, Some("presentation" | "none"));
            let end = document.subtree_end(node).0;
            self.open.push((node.0, Shape { end, is_presentation, ..Shape::default() }));
            return;
        }
        if !matches!(name, names::TR | names::TD | names::TH | names::CAPTION) {
            return;
        }
        self.close(node.0);
        let Some((_, shape)) = self.open.last_mut() else { return };
        match name {
            names::TR => {
                shape.end_row();
                shape.rows += 1;
            }
            names::CAPTION => shape.has_caption = true,
            _ => {
                shape.end_cell();
                shape.cells_here += 1;
                shape.headings += u32::from(name == names::TH);
            }
        }
    }

    /// Tells of a text and of its letters.
    pub fn text(&mut self, node: NodeId, weight: u32) {
        if self.open.is_empty() {
            return;
        }
        self.close(node.0);
        if let Some((_, shape)) = self.open.last_mut() {
            shape.weight_here = shape.weight_here.saturating_add(weight);
        }
    }

    /// Tells that the page has ended.
    pub fn finish(&mut self) {
        self.close(u32::MAX);
    }

    /// True for a table that holds data.
    pub fn holds_data(&self, table: NodeId) -> bool {
        self.data.contains(&table.0)
    }
}
